"""Export destinations, bulk exports and their runs."""

from storage.migrations import apply

revision = "0005"
down_revision = "0004"

STATEMENTS = """
CREATE TABLE export_destinations (
    id                  uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL REFERENCES tenants,
    destination_type    text NOT NULL DEFAULT 's3' CHECK (destination_type IN ('s3')),
    display_name        text NOT NULL,
    config              jsonb NOT NULL,
    credentials_version integer NOT NULL DEFAULT 1,   -- the newest: what new export runs use
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX export_destinations_tenant ON export_destinations (tenant_id, created_at);

-- A rotation adds a version; an export run keeps the one that it started with until it ends.
CREATE TABLE export_credentials (
    destination_id  uuid NOT NULL REFERENCES export_destinations ON DELETE CASCADE,
    version         integer NOT NULL,
    credential_keys text[] NOT NULL,   -- names of the fields that are set
    credentials     bytea NOT NULL,    -- encrypted: {name: value}
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (destination_id, version)
);

CREATE TABLE exports (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL REFERENCES tenants,
    destination_id   uuid NOT NULL REFERENCES export_destinations,
    session_id       uuid,
    all_experiments  boolean NOT NULL DEFAULT false,
    start_time       timestamptz NOT NULL,
    end_time         timestamptz,
    filter           text,
    format_version   text NOT NULL,
    compression      text NOT NULL,
    interval_hours   integer,
    export_fields    text[],
    source_export_id uuid REFERENCES exports,  -- the schedule that spawned it
    status           text NOT NULL DEFAULT 'CREATED'
                     CHECK (status IN ('CREATED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMEDOUT')),
    error            text,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    started_at       timestamptz,
    finished_at      timestamptz,
    CHECK ((session_id IS NOT NULL) <> all_experiments),
    CHECK ((interval_hours IS NULL) = (end_time IS NOT NULL))
);
CREATE INDEX exports_tenant ON exports (tenant_id, created_at DESC, id DESC);
CREATE INDEX exports_destination ON exports (destination_id);
CREATE UNIQUE INDEX exports_window ON exports (source_export_id, start_time) WHERE source_export_id IS NOT NULL;
CREATE INDEX exports_schedules ON exports (tenant_id)
    WHERE interval_hours IS NOT NULL AND status IN ('CREATED', 'RUNNING');

-- One project and UTC day of an export.
CREATE TABLE export_runs (
    id                  uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL,
    export_id           uuid NOT NULL REFERENCES exports ON DELETE CASCADE,
    session_id          uuid NOT NULL,
    start_time          timestamptz NOT NULL,
    end_time            timestamptz NOT NULL,
    status              text NOT NULL DEFAULT 'CREATED'
                        CHECK (status IN ('CREATED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMEDOUT')),
    attempt             integer NOT NULL DEFAULT 0,  -- the attempt that may write; 0 before the first
    errors              jsonb NOT NULL DEFAULT '{}', -- {retry_<n>: message}
    credentials_version integer,
    rows_planned        bigint NOT NULL DEFAULT 0,   -- rows when the export was planned
    rows_written        bigint NOT NULL DEFAULT 0,   -- rows in finished files
    rows_in_flight      bigint NOT NULL DEFAULT 0,   -- rows read beyond them
    bytes_written       bigint NOT NULL DEFAULT 0,
    cursor_time         timestamptz,                 -- last row of the last finished file
    cursor_id           uuid,
    files               jsonb NOT NULL DEFAULT '[]', -- see storage.export_runs.ExportedFile
    pending_upload      jsonb,                       -- the upload in flight, noted before it can become visible
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    started_at          timestamptz,
    finished_at         timestamptz,
    UNIQUE (export_id, session_id, start_time)
);
CREATE INDEX export_runs_unfinished ON export_runs (export_id, session_id, start_time)
    WHERE status IN ('CREATED', 'RUNNING');
"""


def upgrade() -> None:
    apply(STATEMENTS)
