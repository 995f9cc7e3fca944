"""Assistants, threads, runs, their events and states, and what a revision worker may see of them."""

from storage.migrations import apply

revision = "0003"
down_revision = "0002"

STATEMENTS = """
CREATE TABLE assistants (
    deployment_id uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    assistant_id  uuid NOT NULL,
    tenant_id     uuid NOT NULL,
    graph_id      text NOT NULL,
    name          text NOT NULL,
    description   text,
    config        jsonb NOT NULL DEFAULT '{}',
    context       jsonb NOT NULL DEFAULT '{}',
    metadata      jsonb NOT NULL DEFAULT '{}',
    version       integer NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (deployment_id, assistant_id)
);
CREATE INDEX assistants_metadata ON assistants USING gin (metadata jsonb_path_ops);

CREATE TABLE assistant_versions (
    deployment_id uuid NOT NULL,
    assistant_id  uuid NOT NULL,
    version       integer NOT NULL,
    graph_id      text NOT NULL,
    name          text NOT NULL,
    description   text,
    config        jsonb NOT NULL,
    context       jsonb NOT NULL,
    metadata      jsonb NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (deployment_id, assistant_id, version),
    FOREIGN KEY (deployment_id, assistant_id) REFERENCES assistants ON DELETE CASCADE
);

CREATE TABLE threads (
    thread_id        uuid PRIMARY KEY,
    deployment_id    uuid NOT NULL REFERENCES deployments ON DELETE CASCADE,
    tenant_id        uuid NOT NULL,
    status           text NOT NULL DEFAULT 'idle' CHECK (status IN ('idle', 'busy', 'interrupted', 'error')),
    metadata         jsonb NOT NULL DEFAULT '{}',
    config           jsonb NOT NULL DEFAULT '{}',
    values           jsonb,
    interrupts       jsonb NOT NULL DEFAULT '{}',
    error            jsonb,
    event_seq        bigint NOT NULL DEFAULT 0,   -- sequence of the newest event
    temporary        boolean NOT NULL DEFAULT false, -- made for one stateless run
    ttl_strategy     text CHECK (ttl_strategy IN ('delete', 'keep_latest')),
    ttl_minutes      double precision,
    expires_at       timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    state_updated_at timestamptz
);
CREATE INDEX threads_deployment ON threads (deployment_id, created_at DESC);
CREATE INDEX threads_metadata ON threads USING gin (metadata jsonb_path_ops);
CREATE INDEX threads_expiry ON threads (expires_at) WHERE expires_at IS NOT NULL;

-- The thread of a stateless run is kept for a minute after the run, for those who still wait for its result.
CREATE FUNCTION slipway_expire_temporary() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.expires_at := now() + interval '1 minute';
    RETURN NEW;
END $$;
CREATE TRIGGER expire_temporary BEFORE UPDATE OF status ON threads
    FOR EACH ROW WHEN (NEW.temporary AND NEW.status <> 'busy') EXECUTE FUNCTION slipway_expire_temporary();

-- `json`, not `jsonb`, where documents are only stored and returned: cheaper to write, and it keeps \\u0000.
CREATE TABLE runs (
    run_id             uuid PRIMARY KEY,
    thread_id          uuid NOT NULL REFERENCES threads ON DELETE CASCADE,
    deployment_id      uuid NOT NULL,
    tenant_id          uuid NOT NULL,
    assistant_id       uuid NOT NULL,
    graph_id           text NOT NULL,
    position           bigint GENERATED ALWAYS AS IDENTITY, -- order of receipt
    status             text NOT NULL DEFAULT 'pending'
                       CHECK (status IN ('pending', 'running', 'error', 'success', 'timeout', 'interrupted')),
    kwargs             json NOT NULL,
    metadata           jsonb NOT NULL DEFAULT '{}',
    multitask_strategy text NOT NULL DEFAULT 'enqueue',
    after_seconds      double precision,
    lane               smallint,                   -- lane that carries it; NULL: its thread's workflow does
    attempt            integer NOT NULL DEFAULT 0, -- the attempt that may write; 0 before the first
    revision_id        uuid,                       -- revision that ran the newest attempt
    error              json,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    started_at         timestamptz,
    ended_at           timestamptz
);
CREATE INDEX runs_thread ON runs (thread_id, position DESC);
CREATE INDEX runs_unfinished ON runs (deployment_id, status) WHERE status IN ('pending', 'running');

-- What clients of a thread see happening, in order. Written by revision workers in batches.
CREATE TABLE thread_events (
    thread_id     uuid NOT NULL REFERENCES threads ON DELETE CASCADE,
    seq           bigint NOT NULL,
    deployment_id uuid NOT NULL DEFAULT slipway_deployment(),
    run_id        uuid NOT NULL,
    attempt       integer NOT NULL,
    event         text NOT NULL,     -- stream mode or protocol method
    namespace     text[] NOT NULL DEFAULT '{}',
    data          json NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (thread_id, seq)
);
CREATE INDEX thread_events_run ON thread_events (run_id, seq);
CREATE INDEX thread_events_created ON thread_events USING brin (created_at);

-- The public ThreadState of each checkpoint, so that state and history need no worker.
CREATE TABLE thread_states (
    thread_id            uuid NOT NULL REFERENCES threads ON DELETE CASCADE,
    checkpoint_ns        text NOT NULL DEFAULT '',
    checkpoint_id        text NOT NULL,
    parent_checkpoint_id text,
    deployment_id        uuid NOT NULL DEFAULT slipway_deployment(),
    run_id               uuid,
    metadata             jsonb NOT NULL DEFAULT '{}',
    state                json NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE INDEX thread_states_run ON thread_states (run_id);

-- A write to a thread's state that a client asked for and the revision's worker executes. The API holds the thread
-- (FOR NO KEY UPDATE) until the worker has answered, so no run begins meanwhile: the worker must not write `threads`.
CREATE TABLE state_updates (
    update_id     uuid PRIMARY KEY,
    thread_id     uuid NOT NULL REFERENCES threads ON DELETE CASCADE,
    deployment_id uuid NOT NULL,
    tenant_id     uuid NOT NULL,
    graph_id      text NOT NULL,
    request       json NOT NULL,   -- workflows.messages.revision.UpdateState says what is in it
    claimed_at    timestamptz,     -- a worker has begun; before that the API may still withdraw the request
    response      json,            -- {"checkpoint": {...}} or {"error": "..."}: what the client is told
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX state_updates_thread ON state_updates (thread_id);

-- Raises unless the update may still write; holds its row, so that it is not withdrawn meanwhile.
CREATE FUNCTION slipway_fence_update(the_update uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM state_updates u WHERE update_id = the_update AND response IS NULL AND claimed_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM runs r WHERE r.thread_id = u.thread_id AND r.status IN ('pending', 'running'))
        FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'state update % was withdrawn', the_update USING ERRCODE = 'SW001';
    END IF;
END $$;

-- Raises unless `attempt` is the newest of the run; holds the row, so that a newer attempt begins after this
-- transaction or not before it. Every write of a revision worker goes through it.
CREATE FUNCTION slipway_fence(the_run uuid, the_attempt integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM runs WHERE run_id = the_run AND attempt = the_attempt AND status = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'attempt % of run % was superseded', the_attempt, the_run USING ERRCODE = 'SW001';
    END IF;
END $$;

-- One group role owns the rights of all revision workers; row-level security holds each to its deployment.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'slipway_workers') THEN
        CREATE ROLE slipway_workers NOLOGIN;
    END IF;
END $$;
DO $$ BEGIN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO slipway_workers', current_database());
END $$;
GRANT USAGE ON SCHEMA public TO slipway_workers;
GRANT SELECT ON runs, threads, assistants TO slipway_workers;
GRANT UPDATE (status, attempt, revision_id, error, started_at, ended_at, updated_at) ON runs TO slipway_workers;
GRANT UPDATE (status, values, interrupts, error, event_seq, metadata, updated_at, state_updated_at)
    ON threads TO slipway_workers;
GRANT SELECT, INSERT, UPDATE, DELETE ON thread_states TO slipway_workers;
GRANT SELECT, INSERT ON thread_events TO slipway_workers;
GRANT SELECT, UPDATE (claimed_at, response) ON state_updates TO slipway_workers;
"""

ROW_LEVEL_SECURITY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY worker ON {table} TO slipway_workers
    USING (deployment_id = (SELECT slipway_deployment()))
    WITH CHECK (deployment_id = (SELECT slipway_deployment()));
"""


def upgrade() -> None:
    apply(STATEMENTS)
    for table in ("assistants", "threads", "runs", "thread_events", "thread_states", "state_updates"):
        apply(ROW_LEVEL_SECURITY.format(table=table))
