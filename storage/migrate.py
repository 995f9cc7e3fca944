"""Brings a database to the current schema: forward only, under a lock, safe to run from many processes."""

from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy
from alembic import command
from alembic.config import Config
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.postgres import PostgresStore
from psycopg.rows import dict_row

_MIGRATION_LOCK = 0x511B_3A7E

# The checkpoint tables are langgraph's own; we add whose rows they are and hold revision workers to theirs.
_SECURE_CHECKPOINTS = """
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS deployment_id uuid NOT NULL DEFAULT slipway_deployment();
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS worker ON {table};
CREATE POLICY worker ON {table} TO slipway_workers
    USING (deployment_id = (SELECT slipway_deployment()))
    WITH CHECK (deployment_id = (SELECT slipway_deployment()));
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO slipway_workers;
"""

# The store's tables are langgraph's own too. Each namespace begins with its deployment's id: so two deployments never
# share a key, and the deployment of a row is a column that follows from its namespace (docs/architecture/store.md).
_SECURE_STORE = """
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS deployment_id uuid NOT NULL
    GENERATED ALWAYS AS (split_part(prefix, '.', 1)::uuid) STORED REFERENCES deployments ON DELETE CASCADE;
CREATE INDEX IF NOT EXISTS {table}_deployment ON {table} (deployment_id, prefix text_pattern_ops);
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS worker ON {table};
CREATE POLICY worker ON {table} TO slipway_workers
    USING (deployment_id = (SELECT slipway_deployment()))
    WITH CHECK (deployment_id = (SELECT slipway_deployment()));
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO slipway_workers;
"""
# Minutes may be fractions.
_FRACTIONAL_TTL = "ALTER TABLE store ALTER COLUMN ttl_minutes TYPE double precision"
# langgraph would give the column one number of dimensions; each deployment has its own.
_STORE_VECTORS = """
CREATE TABLE IF NOT EXISTS store_vectors (
    prefix     text NOT NULL,
    key        text NOT NULL,
    field_name text NOT NULL,
    embedding  vector NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (prefix, key, field_name),
    FOREIGN KEY (prefix, key) REFERENCES store (prefix, key) ON DELETE CASCADE
)
"""


def migrate(database_url: str) -> None:
    """Apply what is missing. A second caller waits for the first and then finds nothing to do."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as lock:
        lock.execute("SELECT pg_advisory_lock(%s)", (_MIGRATION_LOCK,))
        _upgrade(database_url)
        _upgrade_checkpoints(database_url)
        _upgrade_store(database_url)


def _upgrade(database_url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(database_url), poolclass=sqlalchemy.NullPool
    )
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _upgrade_checkpoints(database_url: str) -> None:
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with psycopg.connect(database_url, **options) as connection:
        PostgresSaver(connection).setup()
        if not _is_secured(connection, "checkpoint_writes"):
            with connection.transaction():
                for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                    _apply(connection, _SECURE_CHECKPOINTS.format(table=table))


def _upgrade_store(database_url: str) -> None:
    """Tables of the store; those of its vectors only where pgvector can be had."""
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with psycopg.connect(database_url, **options) as connection:
        PostgresStore(connection).setup()
        if not _is_secured(connection, "store"):
            with connection.transaction():
                _apply(connection, _FRACTIONAL_TTL)
                _apply(connection, _SECURE_STORE.format(table="store"))
        available = connection.execute("SELECT FROM pg_available_extensions WHERE name = 'vector'").fetchone()
        if available is not None and not _is_secured(connection, "store_vectors"):
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                _apply(connection, _STORE_VECTORS)
                _apply(connection, _SECURE_STORE.format(table="store_vectors"))


def _is_secured(connection: psycopg.Connection[dict[str, Any]], table: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM pg_policies WHERE tablename = %s AND policyname = 'worker'", (table,)
    ).fetchone()
    return found is not None


def _apply(connection: psycopg.Connection[dict[str, Any]], statements: str) -> None:
    for statement in statements.strip().split(";\n"):
        connection.execute(statement.encode())
