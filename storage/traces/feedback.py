"""Feedback of runs: stored, and summed up on the run it is about (trace contract §5.7)."""

from collections import defaultdict
from typing import Any
from uuid import UUID

from psycopg.types.json import Json

from storage.database import Connection, dump_json
from storage.traces.changes import FeedbackChange
from storage.traces.feedback_stats import feedback_stats
from storage.traces.keys import RunKey
from storage.traces.rows import load_rows

_JSON_FIELDS = ("value", "correction", "feedback_source", "extra")


class FeedbackConflictError(Exception):
    """The id of a feedback record belongs to one about another run."""


async def pending_feedback(connection: Connection, tenant_id: UUID, run_ids: set[UUID]) -> set[UUID]:
    """Those of the runs that have stored feedback."""
    if not run_ids:
        return set()
    cursor = await connection.execute(
        "SELECT DISTINCT run_id FROM feedback WHERE tenant_id = %s AND run_id = ANY(%s)",
        (tenant_id, list(run_ids)),
    )
    return {row["run_id"] for row in await cursor.fetchall()}


async def apply_feedback(
    connection: Connection,
    tenant_id: UUID,
    changes: list[FeedbackChange],
    keys: dict[UUID, RunKey],
    waiting: set[UUID],
) -> None:
    """Store feedback, and renew the statistics of every run that it, or `waiting`, names.

    `keys` holds the locked keys of those runs that have a row.
    """
    touched = waiting | {change.run_id for change in changes if change.run_id}
    rows = await load_rows(connection, tenant_id, [keys[run_id] for run_id in touched if run_id in keys])
    for change in changes:
        await _upsert(connection, tenant_id, change, rows.get(change.run_id) if change.run_id else None)
    for run_id in waiting & rows.keys():
        await connection.execute(
            "UPDATE feedback SET session_id = %s, trace_id = %s, start_time = %s WHERE tenant_id = %s AND run_id = %s",
            (
                rows[run_id]["session_id"],
                rows[run_id]["trace_id"],
                rows[run_id]["start_time"],
                tenant_id,
                run_id,
            ),
        )
    await renew_stats(connection, tenant_id, [keys[run_id] for run_id in touched if run_id in keys])


async def renew_stats(connection: Connection, tenant_id: UUID, keys: list[RunKey]) -> None:
    """Recompute `feedback_stats` of runs from their stored feedback. Their keys must be locked."""
    if not keys:
        return
    cursor = await connection.execute(
        "SELECT run_id, key, score, value, comment, is_error FROM feedback"
        " WHERE tenant_id = %s AND run_id = ANY(%s) ORDER BY created_at, id",
        (tenant_id, [key.run_id for key in keys]),
    )
    records: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for row in await cursor.fetchall():
        records[row["run_id"]].append(row)
    parameters = [
        {
            "stats": dump_json(feedback_stats(records[key.run_id])).decode() if records[key.run_id] else None,
            "tier": "longlived" if records[key.run_id] else None,
            "tenant_id": tenant_id,
            "session_id": key.session_id,
            "start_time": key.start_time,
            "id": key.run_id,
        }
        for key in keys
    ]
    await connection.cursor().executemany(
        "UPDATE trace_runs SET feedback_stats = %(stats)s, updated_at = now(),"
        " trace_tier = coalesce(%(tier)s, trace_tier) WHERE tenant_id = %(tenant_id)s"
        " AND session_id = %(session_id)s AND start_time = %(start_time)s AND id = %(id)s",
        parameters,
    )


async def _upsert(
    connection: Connection, tenant_id: UUID, change: FeedbackChange, run: dict[str, Any] | None
) -> None:
    values: dict[str, Any] = {
        "score": None,
        "value": None,
        "comment": None,
        "correction": None,
        "feedback_source": None,
        "comparative_experiment_id": None,
        "feedback_group_id": None,
        "extra": None,
        "is_error": False,
        "start_time": None,
        **change.values,
    }
    for name in _JSON_FIELDS:
        values[name] = None if values[name] is None else Json(values[name])
    values |= {
        "id": change.feedback_id,
        "tenant_id": tenant_id,
        "key": change.key,
        "run_id": change.run_id,
        "trace_id": change.trace_id or (run["trace_id"] if run else None),
        "session_id": run["session_id"] if run else change.session_id,
        "created_at": change.created_at,
    }
    if run:
        values["start_time"] = run["start_time"]
    cursor = await connection.execute(_UPSERT, values)
    if not cursor.rowcount:
        raise FeedbackConflictError(f"Feedback {change.feedback_id} exists and is about another run.")


_COLUMNS = (
    "id, tenant_id, run_id, trace_id, session_id, start_time, key, score, value, comment, correction,"
    " feedback_source, comparative_experiment_id, feedback_group_id, extra, is_error"
)
_UPSERT = f"""
INSERT INTO feedback ({_COLUMNS}, created_at)
VALUES ({", ".join(f"%({name.strip()})s" for name in _COLUMNS.split(","))}, coalesce(%(created_at)s, now()))
ON CONFLICT (tenant_id, id) DO UPDATE SET
    {", ".join(f"{name.strip()} = excluded.{name.strip()}" for name in _COLUMNS.split(",")[2:])},
    modified_at = now()
WHERE feedback.run_id IS NOT DISTINCT FROM excluded.run_id
"""
