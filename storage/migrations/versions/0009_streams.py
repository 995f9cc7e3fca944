"""Messages that a run under way takes up, and who watches a run that shall not outlive its watchers."""

from storage.migrations import apply

revision = "0009"
down_revision = "0008"

STATEMENTS = """
-- A run that only brings a message: the run under way on its thread may take the message before its turn comes.
ALTER TABLE runs ADD COLUMN inject boolean NOT NULL DEFAULT false;
ALTER TABLE runs ADD COLUMN taken_by uuid; -- the run that took its message
CREATE INDEX runs_inject ON runs (thread_id) WHERE inject AND status = 'pending';
GRANT UPDATE (taken_by) ON runs TO slipway_workers;

-- Clients that are connected to a run which is cancelled when they go. The API process that serves one renews its row;
-- a row that expires tells that the process died with its clients.
CREATE TABLE run_watchers (
    watcher_id    uuid PRIMARY KEY,
    run_id        uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    deployment_id uuid NOT NULL,
    tenant_id     uuid NOT NULL,
    expires_at    timestamptz NOT NULL
);
CREATE INDEX run_watchers_run ON run_watchers (run_id);
CREATE INDEX run_watchers_expiry ON run_watchers (expires_at);
"""


def upgrade() -> None:
    apply(STATEMENTS)
