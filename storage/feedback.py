"""Feedback records and configurations (trace contract §5.7)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json

from storage.database import Connection
from storage.traces.feedback import renew_stats
from storage.traces.keys import lock_keys

COLUMNS = (
    "id, tenant_id, run_id, trace_id, session_id, start_time, key, score, value, comment, correction,"
    " feedback_source, comparative_experiment_id, feedback_group_id, extra, is_error, created_at, modified_at"
)
_JSON = {"value", "correction"}


@dataclass
class FeedbackQuery:
    """What feedback to list. `level` is run or session."""

    run_ids: list[UUID] | None = None
    session_ids: list[UUID] | None = None
    keys: list[str] | None = None
    sources: list[str] | None = None
    level: str | None = None
    has_score: bool | None = None
    has_comment: bool | None = None
    min_created_at: datetime | None = None
    max_created_at: datetime | None = None
    limit: int = 100
    offset: int = 0


async def list_feedback(connection: Connection, tenant_id: UUID, query: FeedbackQuery) -> list[DictRow]:
    """Newest first."""
    where = ["tenant_id = %(tenant_id)s"]
    parameters: dict[str, Any] = {"tenant_id": tenant_id, "limit": query.limit, "offset": query.offset}
    for condition, name, value in (
        ("run_id = ANY(%(runs)s)", "runs", query.run_ids),
        ("session_id = ANY(%(sessions)s)", "sessions", query.session_ids),
        ("key = ANY(%(keys)s)", "keys", query.keys),
        ("feedback_source ->> 'type' = ANY(%(sources)s)", "sources", query.sources),
        ("created_at >= %(since)s", "since", query.min_created_at),
        ("created_at <= %(until)s", "until", query.max_created_at),
    ):
        if value is not None:
            where.append(condition)
            parameters[name] = value
    for column, wanted in (
        ("run_id", None if query.level is None else query.level == "run"),
        ("score", query.has_score),
        ("comment", query.has_comment),
    ):
        if wanted is not None:
            where.append(f"{column} IS {'NOT ' if wanted else ''}NULL")
    cursor = await connection.execute(
        f"SELECT {COLUMNS} FROM feedback WHERE {' AND '.join(where)} ORDER BY created_at DESC, id DESC"
        " LIMIT %(limit)s OFFSET %(offset)s".encode(),
        parameters,
    )
    return await cursor.fetchall()


async def get_feedback(connection: Connection, tenant_id: UUID, feedback_id: UUID) -> DictRow | None:
    cursor = await connection.execute(
        f"SELECT {COLUMNS} FROM feedback WHERE tenant_id = %s AND id = %s", (tenant_id, feedback_id)
    )
    return await cursor.fetchone()


async def update_feedback(
    connection: Connection, tenant_id: UUID, feedback_id: UUID, changes: dict[str, Any]
) -> DictRow | None:
    """The record with `changes` of score, value, comment and correction; None if there is none."""
    await _lock_run(connection, tenant_id, feedback_id)
    given = {name: Json(value) if name in _JSON else value for name, value in changes.items()}
    assignments = "".join(f", {name} = %({name})s" for name in given)
    cursor = await connection.execute(
        f"UPDATE feedback SET modified_at = now(){assignments} WHERE tenant_id = %(tenant_id)s AND id = %(id)s"
        f" RETURNING {COLUMNS}".encode(),
        {**given, "tenant_id": tenant_id, "id": feedback_id},
    )
    row = await cursor.fetchone()
    if row:
        await _renew(connection, tenant_id, row["run_id"])
    return row


async def delete_feedback(connection: Connection, tenant_id: UUID, feedback_id: UUID) -> bool:
    """Delete a record and renew its run's statistics; False if there is none."""
    await _lock_run(connection, tenant_id, feedback_id)
    cursor = await connection.execute(
        "DELETE FROM feedback WHERE tenant_id = %s AND id = %s RETURNING run_id", (tenant_id, feedback_id)
    )
    row = await cursor.fetchone()
    if row is None:
        return False
    await _renew(connection, tenant_id, row["run_id"])
    return True


async def session_feedback(connection: Connection, tenant_id: UUID, session_id: UUID) -> list[DictRow]:
    """Feedback about a project itself (summary evaluators)."""
    cursor = await connection.execute(
        "SELECT key, score, value, comment, is_error FROM feedback"
        " WHERE tenant_id = %s AND session_id = %s AND run_id IS NULL ORDER BY created_at, id",
        (tenant_id, session_id),
    )
    return await cursor.fetchall()


async def _lock_run(connection: Connection, tenant_id: UUID, feedback_id: UUID) -> None:
    """Its run's key first, as ingestion does, then the record."""
    row = await get_feedback(connection, tenant_id, feedback_id)
    if row and row["run_id"]:
        await lock_keys(connection, tenant_id, {row["run_id"]})


async def _renew(connection: Connection, tenant_id: UUID, run_id: UUID | None) -> None:
    if run_id is not None:
        keys = await lock_keys(connection, tenant_id, {run_id})
        await renew_stats(connection, tenant_id, [key for key in keys.values() if key.start_time is not None])
