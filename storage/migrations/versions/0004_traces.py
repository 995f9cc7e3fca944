"""Tracing projects, runs of traces, feedback, datasets and examples."""

from storage.migrations import apply

revision = "0004"
down_revision = "0003"

PROJECTS = """
CREATE TABLE projects (
    id                   uuid PRIMARY KEY,
    tenant_id            uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name                 text NOT NULL,
    description          text,
    extra                json,
    reference_dataset_id uuid,             -- set: the project is an experiment on that dataset
    default_dataset_id   uuid,
    num_examples         integer,
    num_repetitions      integer,
    evaluator_keys       text[],
    trace_tier           text CHECK (trace_tier IN ('shortlived', 'longlived')), -- NULL: the workspace's default
    start_time           timestamptz NOT NULL DEFAULT now(),
    end_time             timestamptz,
    created_at           timestamptz NOT NULL DEFAULT now(),
    modified_at          timestamptz NOT NULL DEFAULT now(),
    deleted_at           timestamptz       -- set: gone for every reader; a sweep removes its runs
);
CREATE UNIQUE INDEX projects_name ON projects (tenant_id, name) WHERE deleted_at IS NULL;
CREATE INDEX projects_started ON projects (tenant_id, start_time DESC) WHERE deleted_at IS NULL;
CREATE INDEX projects_experiments ON projects (tenant_id, reference_dataset_id)
    WHERE reference_dataset_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX projects_deleted ON projects (deleted_at) WHERE deleted_at IS NOT NULL;
"""

# Columns, and what a reader (query, export) makes of them. "export" names the column of an exported file where it
# differs. Every text is free of NUL characters; JSON texts are as the client sent them (valid JSON, any escapes).
#
#   tenant_id, session_id     uuid; session_id = projects.id
#   id, trace_id              uuid; id is unique per tenant (trace_run_keys)
#   parent_run_id             uuid or NULL
#   parent_run_ids            uuid[], root first, direct parent last; '{}' for a root. export: JSON array of strings
#   dotted_order              text, never NULL
#   name, run_type, status    text, never NULL; status: success, error, pending
#   is_root                   boolean
#   start_time                timestamptz, never NULL (microseconds); the partition key
#   end_time                  timestamptz or NULL
#   first_token_time          timestamptz or NULL
#   error                     text or NULL
#   inputs, outputs, extra, events   JSON text or NULL (never sent). inputs, outputs and extra hold an object or any
#                             other JSON value, events an array
#   tags                      text[] or NULL (never sent). export: JSON array of strings
#   trace_tier                text: shortlived or longlived
#   reference_example_id      uuid or NULL
#   feedback_stats            JSON text of an object, or NULL when the run has no feedback
#   prompt_tokens, completion_tokens, total_tokens   bigint, never NULL, 0 without usage; sums over the run's subtree
#   prompt_cost, completion_cost, total_cost         numeric or NULL (no cost known); sums over the run's subtree
#
# One project and one UTC day, in the order of exported files, is a plain index scan of one partition:
#   WHERE tenant_id = … AND session_id = … AND start_time >= … AND start_time < … ORDER BY start_time, id
RUNS = r"""
CREATE TABLE trace_runs (
    tenant_id            uuid NOT NULL,
    session_id           uuid NOT NULL,
    id                   uuid NOT NULL,
    trace_id             uuid NOT NULL,
    parent_run_id        uuid,
    reference_example_id uuid,
    start_time           timestamptz NOT NULL,
    end_time             timestamptz,
    first_token_time     timestamptz,
    received_at          timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now(),
    total_tokens         bigint NOT NULL DEFAULT 0,
    prompt_tokens        bigint NOT NULL DEFAULT 0,
    completion_tokens    bigint NOT NULL DEFAULT 0,
    field_ranks          bigint NOT NULL DEFAULT 0,  -- who set each field: see storage.traces.merge
    is_root              boolean NOT NULL,
    total_cost           numeric,
    prompt_cost          numeric,
    completion_cost      numeric,
    name                 text NOT NULL,
    run_type             text NOT NULL,
    status               text NOT NULL,
    trace_tier           text NOT NULL,
    dotted_order         text NOT NULL,
    parent_run_ids       uuid[] NOT NULL DEFAULT '{}',
    tags                 text[],
    error                text,
    metadata_pairs       jsonb,  -- extra.metadata, flat, for filters: {"a.b": ["value", …]}
    own_usage            jsonb,                  -- tokens and costs of this run alone
    attachments          jsonb,                  -- {name: {"key": object key, "mime_type": …, "size": bytes}}
    feedback_stats       text,
    inputs               text,
    outputs              text,
    extra                text,
    events               text,
    serialized           text
) PARTITION BY RANGE (start_time);

-- lz4 where the server was built with it: documents compress several times faster than with PostgreSQL's own.
DO $$
DECLARE
    document text;
BEGIN
    SET LOCAL default_toast_compression = 'lz4';
    FOREACH document IN ARRAY
        '{inputs,outputs,extra,events,serialized,error,metadata_pairs,feedback_stats}'::text[]
    LOOP
        EXECUTE format('ALTER TABLE trace_runs ALTER %I SET COMPRESSION lz4', document);
    END LOOP;
EXCEPTION WHEN invalid_parameter_value OR feature_not_supported THEN
    NULL;
END $$;

-- Lists of a project, newest first or oldest first, and exports.
CREATE INDEX trace_runs_project ON trace_runs (session_id, start_time, id);
-- Lists of root runs: a trace has many runs, its list shows one.
CREATE INDEX trace_runs_roots ON trace_runs (session_id, start_time, id) WHERE is_root;
CREATE INDEX trace_runs_trace ON trace_runs (trace_id);
CREATE INDEX trace_runs_example ON trace_runs (reference_example_id) WHERE reference_example_id IS NOT NULL;
-- Retention of the short tier; that of the long one finds whole partitions.
CREATE INDEX trace_runs_shortlived ON trace_runs (start_time) WHERE trace_tier = 'shortlived';
CREATE INDEX trace_runs_metadata ON trace_runs USING gin (metadata_pairs jsonb_path_ops) WHERE is_root;

-- Runs that claim to be from outside the range for which partitions are made.
CREATE TABLE trace_runs_default PARTITION OF trace_runs DEFAULT;

-- One row per run of a tenant, whatever its start time: makes ids unique over all partitions, finds a run's
-- partition, and is the lock under which a run changes. start_time is NULL while only others speak of the run
-- (its feedback or its children came first).
CREATE TABLE trace_run_keys (
    tenant_id  uuid NOT NULL,
    id         uuid NOT NULL,
    session_id uuid,
    start_time timestamptz,
    PRIMARY KEY (tenant_id, id)
);

-- Objects of attachments whose rows are gone, until the object store has forgotten them too.
CREATE TABLE doomed_objects (
    object_key text PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A JSON object as the filter language sees it: {"path.of.scalar": ["text", …]}, as storage.filters.pairs makes it of
-- metadata. NULL for NULL, {} for what is not an object or beyond what jsonb holds.
CREATE FUNCTION slipway_pairs(document text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    value jsonb;
BEGIN
    IF document IS NULL THEN RETURN NULL; END IF;
    IF position('\u0000' in document) > 0 THEN
        document := regexp_replace(document, '(?<!\\)((?:\\\\)*)\\u0000', '\1', 'g');
    END IF;
    value := document::jsonb;
    IF jsonb_typeof(value) <> 'object' THEN RETURN '{}'; END IF;
    RETURN coalesce((
        WITH RECURSIVE walk (path, value) AS (
            SELECT e.key, e.value FROM jsonb_each(value) e
            UNION ALL
            SELECT member.path, member.value FROM walk w CROSS JOIN LATERAL (
                SELECT w.path || '.' || e.key AS path, e.value
                FROM jsonb_each(CASE jsonb_typeof(w.value) WHEN 'object' THEN w.value END) e
                UNION ALL
                SELECT w.path, a.value
                FROM jsonb_array_elements(CASE jsonb_typeof(w.value) WHEN 'array' THEN w.value END) a (value)
            ) member
        )
        SELECT jsonb_object_agg(p.path, p.texts) FROM (
            SELECT left(w.path, 500) AS path, jsonb_agg(DISTINCT left(w.value #>> '{}', 250)) AS texts
            FROM walk w WHERE jsonb_typeof(w.value) IN ('string', 'number', 'boolean') GROUP BY 1
        ) p
    ), '{}');
EXCEPTION WHEN data_exception OR program_limit_exceeded OR statement_too_complex THEN
    RETURN '{}';
END $$;

-- Makes the partition of the UTC month that holds `moment`. Attaching, unlike creating in place, lets readers and
-- writers of other partitions go on; rows that were waiting in the default partition move over.
CREATE FUNCTION slipway_ensure_trace_partition(moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lower timestamptz := date_trunc('month', moment, 'UTC');
    upper timestamptz := lower + interval '1 month';
    partition text := 'trace_runs_' || to_char(lower AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    IF to_regclass(partition) IS NOT NULL THEN RETURN; END IF;
    PERFORM pg_advisory_xact_lock(hashtext('slipway_ensure_trace_partition'));
    IF to_regclass(partition) IS NOT NULL THEN RETURN; END IF;
    EXECUTE format('CREATE TABLE %I (LIKE trace_runs INCLUDING DEFAULTS INCLUDING COMPRESSION)', partition);
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT bounds CHECK (start_time >= %L AND start_time < %L)',
                   partition, lower, upper);
    EXECUTE format('WITH moved AS (DELETE FROM trace_runs_default WHERE start_time >= %L AND start_time < %L'
                   ' RETURNING *) INSERT INTO %I SELECT * FROM moved', lower, upper, partition);
    EXECUTE format('ALTER TABLE trace_runs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                   partition, lower, upper);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT bounds', partition);
END $$;
SET LOCAL timezone = 'UTC';
SELECT slipway_ensure_trace_partition(now()), slipway_ensure_trace_partition(now() + interval '1 month');
"""

FEEDBACK = """
CREATE TABLE feedback (
    id                        uuid NOT NULL,
    tenant_id                 uuid NOT NULL,
    run_id                    uuid,
    trace_id                  uuid,
    session_id                uuid,
    start_time                timestamptz,
    key                       text NOT NULL,
    score                     double precision,
    value                     json,
    comment                   text,
    correction                json,
    feedback_source           json,
    comparative_experiment_id uuid,
    feedback_group_id         uuid,
    extra                     json,
    is_error                  boolean NOT NULL DEFAULT false,
    created_at                timestamptz NOT NULL DEFAULT now(),
    modified_at               timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX feedback_run ON feedback (tenant_id, run_id, created_at) WHERE run_id IS NOT NULL;
CREATE INDEX feedback_project ON feedback (tenant_id, session_id, created_at) WHERE session_id IS NOT NULL;
CREATE INDEX feedback_created ON feedback (tenant_id, created_at DESC);

CREATE TABLE feedback_configs (
    tenant_id       uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    feedback_key    text NOT NULL,
    feedback_config json NOT NULL,
    modified_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, feedback_key)
);
"""

DATASETS = """
CREATE TABLE datasets (
    id                        uuid PRIMARY KEY,
    tenant_id                 uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name                      text NOT NULL,
    description               text,
    data_type                 text NOT NULL DEFAULT 'kv' CHECK (data_type IN ('kv', 'llm', 'chat')),
    inputs_schema_definition  json,
    outputs_schema_definition json,
    transformations           json,
    metadata                  jsonb,
    extra                     json,
    created_at                timestamptz NOT NULL DEFAULT now(),
    modified_at               timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, name)
);

-- A version of a dataset is a moment: each change of an example closes one row and opens the next.
CREATE TABLE examples (
    dataset_id    uuid NOT NULL REFERENCES datasets ON DELETE CASCADE,
    id            uuid NOT NULL,
    tenant_id     uuid NOT NULL,
    valid_from    timestamptz NOT NULL,
    valid_to      timestamptz,                -- NULL: current
    name          text NOT NULL,
    inputs        json NOT NULL,
    outputs       json,
    metadata      jsonb NOT NULL DEFAULT '{}', -- "dataset_split": [names]
    source_run_id uuid,
    attachments   jsonb NOT NULL DEFAULT '{}', -- as in trace_runs
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id, valid_from)
);
CREATE UNIQUE INDEX examples_current ON examples (tenant_id, id) WHERE valid_to IS NULL;
CREATE INDEX examples_dataset ON examples (dataset_id, valid_from);

CREATE TABLE dataset_tags (
    dataset_id uuid NOT NULL REFERENCES datasets ON DELETE CASCADE,
    tag        text NOT NULL,
    as_of      timestamptz NOT NULL,
    PRIMARY KEY (dataset_id, tag)
);

CREATE TABLE comparative_experiments (
    id                   uuid PRIMARY KEY,
    tenant_id            uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    reference_dataset_id uuid NOT NULL,
    name                 text NOT NULL,
    description          text,
    experiment_ids       uuid[] NOT NULL,
    extra                json,
    created_at           timestamptz NOT NULL DEFAULT now(),
    modified_at          timestamptz NOT NULL DEFAULT now()
);
"""


def upgrade() -> None:
    for statements in (PROJECTS, RUNS, FEEDBACK, DATASETS):
        apply(statements)
