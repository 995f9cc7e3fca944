"""Listeners, deployments and revisions."""

from storage.migrations import apply

revision = "0002"
down_revision = "0001"

STATEMENTS = """
-- The listener without a tenant is the built-in one, which runs revisions as processes of its own host.
CREATE TABLE listeners (
    id             uuid PRIMARY KEY,
    tenant_id      uuid REFERENCES tenants ON DELETE CASCADE,
    version        text,
    compute_type   text NOT NULL CHECK (compute_type IN ('k8s', 'process')),
    compute_id     text NOT NULL,
    compute_config jsonb NOT NULL DEFAULT '{}',
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, compute_id)
);
INSERT INTO listeners (id, compute_type, compute_id)
VALUES ('00000000-0000-4000-8000-000000000001', 'process', 'built-in');

CREATE TABLE deployments (
    id                    uuid PRIMARY KEY,
    tenant_id             uuid NOT NULL REFERENCES tenants,
    name                  text NOT NULL,
    display_name          text,
    source                text NOT NULL,
    source_config         jsonb NOT NULL DEFAULT '{}',
    -- What the next revision inherits: the values of the latest one, or what was given before there was one.
    source_revision_config jsonb NOT NULL DEFAULT '{}',
    secrets               bytea,           -- encrypted: {name: value}
    secret_references     jsonb,
    status                text NOT NULL,
    deployment_tier       text,
    compute_tier          text,
    database_tier         text,
    shareable             boolean NOT NULL DEFAULT false,
    route_through_gateway boolean NOT NULL DEFAULT false,
    listener_id           uuid NOT NULL REFERENCES listeners,
    latest_revision_id    uuid,
    active_revision_id    uuid,
    tracer_session_id     uuid,
    worker_credentials    bytea,           -- encrypted: database role password and tracing key of its workers
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    deleted_at            timestamptz
);
CREATE UNIQUE INDEX deployments_name ON deployments (tenant_id, name);
CREATE INDEX deployments_created ON deployments (tenant_id, created_at DESC);

CREATE TABLE revisions (
    id                     uuid PRIMARY KEY,
    deployment_id          uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    tenant_id              uuid NOT NULL REFERENCES tenants,
    number                 integer NOT NULL,
    status                 text NOT NULL,
    status_message         text,
    source                 text NOT NULL,
    source_config          jsonb NOT NULL DEFAULT '{}',
    source_revision_config jsonb NOT NULL DEFAULT '{}',
    secrets                bytea,          -- encrypted: {name: value}
    secret_references      jsonb,
    build                  jsonb,          -- what the build made: see workflows.messages.rollout.Build
    description            jsonb,          -- what the probe saw: see workflows.messages.revision.Description
    created_at             timestamptz NOT NULL DEFAULT now(),
    updated_at             timestamptz NOT NULL DEFAULT now(),
    UNIQUE (deployment_id, number)
);

CREATE TABLE revision_logs (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    deployment_id uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    revision_id   uuid NOT NULL REFERENCES revisions ON DELETE CASCADE,
    type          text NOT NULL CHECK (type IN ('build', 'deploy')),
    level         text NOT NULL,
    message       text NOT NULL,
    run_id        uuid,
    logged_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX revision_logs_revision ON revision_logs (revision_id, type, id);
CREATE INDEX revision_logs_deployment ON revision_logs (deployment_id, type, id);

-- A tarball that was announced (upload-url) and, once size_bytes is set, received.
CREATE TABLE uploads (
    object_path   text PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants,
    deployment_id uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    token_hash    bytea NOT NULL UNIQUE,
    object_key    text,              -- where the object store holds it; each attempt to send it has a key of its own
    size_bytes    bigint,
    sha256        text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    received_at   timestamptz
);

-- The workers that a listener has to keep running, one row per start of a revision. What the listener finds here
-- after a restart is what it runs, nothing else.
CREATE TABLE worker_sets (
    id            uuid PRIMARY KEY,   -- run id of the revision workflow that started it
    tenant_id     uuid NOT NULL,
    deployment_id uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    revision_id   uuid NOT NULL REFERENCES revisions ON DELETE CASCADE,
    listener_id   uuid NOT NULL REFERENCES listeners,
    desired       text NOT NULL DEFAULT 'running' CHECK (desired IN ('running', 'stopped')),
    replicas      integer NOT NULL,
    drain_seconds double precision NOT NULL,
    surplus_since timestamptz,        -- since when it has had more processes than its runs need
    observed      jsonb NOT NULL DEFAULT '[]', -- [{pid, started_at, restarts}], for operators
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX worker_sets_listener ON worker_sets (listener_id) WHERE desired = 'running';
CREATE INDEX worker_sets_deployment ON worker_sets (deployment_id);

-- The deployment that the connected role works for. Roles of revision workers are named after their deployment,
-- so user code cannot claim another one by setting a parameter. NULL for every other role.
CREATE FUNCTION slipway_deployment() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN current_user LIKE 'slipway\\_worker\\_%' THEN substr(current_user, 16)::uuid END
$$;
"""


def upgrade() -> None:
    apply(STATEMENTS)
