"""Rows of the trace store as exports read them: which, in what order, and as what columns."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg import sql

from storage.database import Connection
from storage.export_runs import Cursor

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_postgresql import dbapi

# Every exportable column (mission document, Exportable run fields), and how it is read. Ids and documents are
# text, so that any engine can load them.
COLUMNS: dict[str, str] = {
    "id": "id::text",
    "tenant_id": "tenant_id::text",
    "session_id": "session_id::text",
    "trace_id": "trace_id::text",
    "parent_run_id": "parent_run_id::text",
    "parent_run_ids": "to_json(parent_run_ids)::text",
    "reference_example_id": "reference_example_id::text",
    "name": "name",
    "run_type": "run_type",
    "start_time": "start_time",
    "end_time": "end_time",
    "status": "status",
    "is_root": "is_root",
    "dotted_order": "dotted_order",
    "trace_tier": "trace_tier",
    "inputs": "inputs",
    "outputs": "outputs",
    "error": "error",
    "extra": "extra",
    "events": "events",
    "tags": "to_json(tags)::text",
    "feedback_stats": "feedback_stats",
    "total_tokens": "total_tokens",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "total_cost": "total_cost::float8",
    "prompt_cost": "prompt_cost::float8",
    "completion_cost": "completion_cost::float8",
    "first_token_time": "first_token_time",
}
# Read whether exported or not: where a resumed attempt goes on, and a file's first and last time.
CURSOR_TIME, CURSOR_ID = "start_time", "id"


@dataclass(frozen=True)
class Condition:
    """A compiled filter: an SQL expression over `trace_runs` with named placeholders."""

    text: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Selection:
    """Runs of one project with start_time <= run.start_time < end_time, after `after` in order of time and id."""

    tenant_id: UUID
    session_id: UUID
    start_time: datetime
    end_time: datetime
    condition: Condition | None = None
    after: Cursor | None = None

    @property
    def constants(self) -> dict[str, str]:
        """Columns that are the same in every row, which need not be read."""
        return {"tenant_id": str(self.tenant_id), "session_id": str(self.session_id)}


@dataclass(frozen=True)
class DayCount:
    session_id: UUID
    day: datetime
    rows: int


async def count_by_day(
    connection: Connection,
    tenant_id: UUID,
    session_ids: list[UUID],
    start_time: datetime,
    end_time: datetime,
    condition: Condition | None,
) -> list[DayCount]:
    """Runs per project and UTC day of the window; days without runs are left out."""
    cursor = await connection.execute(
        "SELECT session_id, date_trunc('day', start_time, 'UTC') AS day, count(*) AS rows FROM trace_runs"
        # By way of the projects, the tenant costs no look at the rows: the index has all that is left.
        " WHERE session_id IN (SELECT id FROM projects WHERE tenant_id = %(_tenant)s AND id = ANY(%(_sessions)s))"
        " AND start_time >= %(_start)s AND start_time < %(_end)s"
        f"{_narrowed(condition)} GROUP BY 1, 2 ORDER BY 1, 2".encode(),
        {
            **(condition.parameters if condition else {}),
            "_tenant": tenant_id,
            "_sessions": session_ids,
            "_start": start_time,
            "_end": end_time,
        },
    )
    return [DayCount(row["session_id"], row["day"], row["rows"]) for row in await cursor.fetchall()]


async def find_projects(
    connection: Connection, tenant_id: UUID, session_id: UUID | None, limit: int | None
) -> list[UUID]:
    """The project if it exists, or with None every experiment of the workspace, oldest first; `limit` + 1 at most."""
    cursor = await connection.execute(
        "SELECT id FROM projects WHERE tenant_id = %(tenant)s AND deleted_at IS NULL AND CASE"
        " WHEN %(session)s::uuid IS NULL THEN reference_dataset_id IS NOT NULL ELSE id = %(session)s END"
        " ORDER BY start_time, id LIMIT %(limit)s",
        {"tenant": tenant_id, "session": session_id, "limit": None if limit is None else limit + 1},
    )
    return [row["id"] for row in await cursor.fetchall()]


def query_text(connection: Connection, selection: Selection, fields: list[str]) -> str:
    """The query of an export run with its values written in, as COPY needs it.

    Its columns are those of `fields` but the selection's constants, and the two of the cursor.
    """
    wanted = {*fields, CURSOR_TIME, CURSOR_ID} - selection.constants.keys()
    columns = [f"{expression} AS {name}" for name, expression in COLUMNS.items() if name in wanted]
    parameters: dict[str, Any] = dict(selection.condition.parameters) if selection.condition else {}
    parameters |= {
        "_tenant": selection.tenant_id,
        "_session": selection.session_id,
        "_start": selection.start_time,
        "_end": selection.end_time,
    }
    text = (
        f"SELECT {', '.join(columns)} FROM trace_runs WHERE tenant_id = %(_tenant)s AND session_id = %(_session)s"
        f" AND start_time >= %(_start)s AND start_time < %(_end)s{_narrowed(selection.condition)}"
    )
    if selection.after:
        text += " AND (start_time, id) > (%(_after_time)s, %(_after_id)s)"
        parameters |= {"_after_time": selection.after.time, "_after_id": selection.after.id}
    # Qualified: by itself `id` would be the text of the output, and the order of the index of no use.
    return _render(connection, f"{text} ORDER BY trace_runs.start_time, trace_runs.id", parameters)


@contextmanager
def open_batches(database_url: str, query: str, batch_bytes: int) -> "Iterator[pa.RecordBatchReader]":
    """Arrow batches of about `batch_bytes` and at least one row, read while the server still sends."""
    # Here, not above: it loads every data frame library that is installed, and most processes never export.
    import adbc_driver_postgresql

    hint = {adbc_driver_postgresql.StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes)}
    with (
        _open_connection(database_url) as connection,
        connection.cursor(adbc_stmt_kwargs=hint) as cursor,
    ):
        cursor.execute("SET timezone = 'UTC'")
        cursor.execute("SET jit = off")
        cursor.execute(query)
        reader = cursor.fetch_record_batch()
        try:
            yield reader
        finally:
            reader.close()


_open_lock = threading.Lock()
_first_connections: "dict[str, dbapi.Connection]" = {}


def _open_connection(database_url: str) -> "dbapi.Connection":
    """A connection that shares the driver's knowledge of the server's types with all others of this process.

    Reading them takes longer than exporting a small day.
    """
    from adbc_driver_postgresql import dbapi

    with _open_lock:
        if database_url not in _first_connections:
            first = dbapi.connect(database_url, autocommit=True)
            _first_connections[database_url] = first
        return _first_connections[database_url].adbc_clone()


def _narrowed(condition: Condition | None) -> str:
    return f" AND ({condition.text})" if condition else ""


def _render(connection: Connection, text: str, parameters: dict[str, Any]) -> str:
    """Write `parameters` into `text` as SQL literals; `%%` becomes `%`, as when executing."""
    pieces: dict[str, sql.Composable] = {}
    for name, value in parameters.items():
        pieces[name] = sql.Literal(value)
    literals = {name: piece.as_string(connection) for name, piece in pieces.items()}
    return text % literals
