"""Tokens with which whoever has one gives one opinion about a run (trace contract §5.7)."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg.rows import DictRow

from storage.database import Connection


async def create_feedback_token(connection: Connection, tenant_id: UUID, fields: dict[str, Any]) -> DictRow:
    """A token for one opinion: `id`, `run_id`, `feedback_key`, `feedback_id` and `expires_at`."""
    cursor = await connection.execute(
        "INSERT INTO feedback_tokens (id, tenant_id, run_id, feedback_key, feedback_id, expires_at)"
        " VALUES (%(id)s, %(tenant_id)s, %(run_id)s, %(feedback_key)s, %(feedback_id)s, %(expires_at)s)"
        " RETURNING id, expires_at",
        {**fields, "id": uuid4(), "tenant_id": tenant_id},
    )
    row = await cursor.fetchone()
    assert row is not None
    return row


async def lasting_feedback_tokens(
    connection: Connection, tenant_id: UUID, run_id: UUID, records: Mapping[str, UUID], seconds: float
) -> dict[str, UUID]:
    """For each key the token of its record `records[key]`: one with a third of its time left, else a new one."""
    cursor = await connection.execute(
        "SELECT feedback_key, id FROM feedback_tokens WHERE tenant_id = %s AND run_id = %s"
        " AND feedback_id = ANY(%s) AND expires_at > now() + make_interval(secs => %s)",
        (tenant_id, run_id, list(records.values()), seconds / 3),
    )
    tokens: dict[str, UUID] = {row["feedback_key"]: row["id"] for row in await cursor.fetchall()}
    expires_at = datetime.now(UTC) + timedelta(seconds=seconds)
    for key, feedback_id in records.items():
        if key not in tokens:
            fields = {"run_id": run_id, "feedback_key": key, "feedback_id": feedback_id}
            row = await create_feedback_token(connection, tenant_id, {**fields, "expires_at": expires_at})
            tokens[key] = row["id"]
    return tokens


async def list_feedback_tokens(
    connection: Connection, tenant_id: UUID, run_id: UUID, limit: int, offset: int
) -> list[DictRow]:
    """Tokens about a run that have not expired, newest first."""
    cursor = await connection.execute(
        "SELECT id, expires_at FROM feedback_tokens WHERE tenant_id = %s AND run_id = %s AND expires_at > now()"
        " ORDER BY expires_at DESC, id LIMIT %s OFFSET %s",
        (tenant_id, run_id, limit, offset),
    )
    return await cursor.fetchall()


async def find_feedback_token(connection: Connection, token: UUID) -> DictRow | None:
    """What a token is about; None if it is none or has expired."""
    cursor = await connection.execute(
        "SELECT tenant_id, run_id, feedback_key, feedback_id FROM feedback_tokens"
        " WHERE id = %s AND expires_at > now()",
        (token,),
    )
    return await cursor.fetchone()
