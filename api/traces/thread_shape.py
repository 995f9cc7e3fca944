"""Threads as clients read them: summed up over their turns (trace contract §5.5)."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.database import Connection
from storage.traces.runs import RunQuery, query_runs

_PREVIEW_CHARACTERS = 300


async def shape_threads(
    connection: Connection, tenant_id: UUID, project_id: UUID, rows: list[DictRow]
) -> list[dict[str, Any]]:
    """Rows of `storage.traces.threads` with what was said first and last, each as the beginning of its JSON text."""
    ids = {
        row[name] for row in rows for name in ("first_trace_id", "last_trace_id", "failed_id") if row[name]
    }
    turns = RunQuery(
        session_ids=[project_id], run_ids=list(ids), limit=len(ids), documents=("inputs", "outputs")
    )
    runs = {}
    if ids:
        page = await query_runs(connection, tenant_id, turns)
        runs = {run["id"]: run for run in page.rows}

    def preview(run_id: UUID | None, name: str) -> str | None:
        text = (runs.get(run_id) or {}).get(name) if run_id else None
        return text[:_PREVIEW_CHARACTERS] if text else None

    return [
        {
            **{name: value for name, value in row.items() if name != "failed_id"},
            "trace_id": row["last_trace_id"],
            "start_time": row["max_start_time"],
            "first_inputs": preview(row["first_trace_id"], "inputs"),
            "last_outputs": preview(row["last_trace_id"], "outputs"),
            "last_error": preview(row["failed_id"], "error"),
        }
        for row in rows
    ]
