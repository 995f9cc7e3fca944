"""Links that show a dataset or a trace to whoever has them, and tokens for one opinion about a run."""

from storage.migrations import apply

revision = "0012"
down_revision = "0011"

TABLES = """
CREATE TABLE public_links (
    token      uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    dataset_id uuid REFERENCES datasets ON DELETE CASCADE,
    trace_id   uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK (num_nonnulls(dataset_id, trace_id) = 1)
);
CREATE UNIQUE INDEX public_links_dataset ON public_links (tenant_id, dataset_id) WHERE dataset_id IS NOT NULL;
CREATE UNIQUE INDEX public_links_trace ON public_links (tenant_id, trace_id) WHERE trace_id IS NOT NULL;

CREATE TABLE feedback_tokens (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    run_id       uuid NOT NULL,
    feedback_key text NOT NULL,
    feedback_id  uuid NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX feedback_tokens_run ON feedback_tokens (tenant_id, run_id, expires_at);
"""


def upgrade() -> None:
    apply(TABLES)
