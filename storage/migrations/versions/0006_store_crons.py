"""Crons with their firings, and what the platform asks of a revision's worker by row instead of by payload."""

from storage.migrations import apply

revision = "0006"
down_revision = "0005"

STATEMENTS = """
CREATE TABLE crons (
    cron_id          uuid PRIMARY KEY,
    deployment_id    uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    tenant_id        uuid NOT NULL,
    assistant_id     uuid NOT NULL,
    thread_id        uuid REFERENCES threads ON DELETE CASCADE, -- null: each firing has a thread of its own
    user_id          text,
    schedule         text NOT NULL,
    timezone         text,
    end_time         timestamptz,
    enabled          boolean NOT NULL DEFAULT true,
    on_run_completed text NOT NULL DEFAULT 'delete' CHECK (on_run_completed IN ('delete', 'keep')),
    payload          json NOT NULL,          -- body of the runs that it creates
    metadata         jsonb NOT NULL DEFAULT '{}',
    next_run_date    timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (deployment_id, assistant_id) REFERENCES assistants ON DELETE CASCADE
);
CREATE INDEX crons_deployment ON crons (deployment_id, created_at DESC);
CREATE INDEX crons_assistant ON crons (deployment_id, assistant_id);
CREATE INDEX crons_thread ON crons (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX crons_metadata ON crons USING gin (metadata jsonb_path_ops);

-- Written in the transaction that creates the run: a firing that is repeated finds itself here and does nothing.
CREATE TABLE cron_firings (
    cron_id      uuid NOT NULL REFERENCES crons ON DELETE CASCADE,
    scheduled_at timestamptz NOT NULL,
    run_id       uuid,                       -- null: the firing was skipped
    thread_id    uuid,
    fired_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (cron_id, scheduled_at)
);

-- A question to one revision's worker whose content may be a user's: the activity carries only the id. The asker
-- deletes the row once it has the answer; a sweep deletes what an asker left behind.
CREATE TABLE revision_calls (
    call_id       uuid PRIMARY KEY,
    deployment_id uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    tenant_id     uuid NOT NULL,
    revision_id   uuid NOT NULL,
    kind          text NOT NULL,
    request       json NOT NULL,
    response      json,
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX revision_calls_created ON revision_calls (created_at);
GRANT SELECT, UPDATE (response) ON revision_calls TO slipway_workers;
ALTER TABLE revision_calls ENABLE ROW LEVEL SECURITY;
CREATE POLICY worker ON revision_calls TO slipway_workers
    USING (deployment_id = (SELECT slipway_deployment()))
    WITH CHECK (deployment_id = (SELECT slipway_deployment()));

-- One row per run that has ended and whose webhook does not know yet.
CREATE TABLE webhook_deliveries (
    run_id        uuid PRIMARY KEY,
    deployment_id uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    tenant_id     uuid NOT NULL,
    url           text NOT NULL,
    body          json NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhook_deliveries_created ON webhook_deliveries (created_at);
CREATE TABLE webhook_secrets (
    deployment_id uuid PRIMARY KEY REFERENCES deployments ON DELETE CASCADE,
    tenant_id     uuid NOT NULL,
    secret        bytea NOT NULL,            -- encrypted
    created_at    timestamptz NOT NULL DEFAULT now()
);
"""


def upgrade() -> None:
    apply(STATEMENTS)
