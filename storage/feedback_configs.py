"""What the values of a feedback key mean, per workspace (trace contract §5.7)."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json

from storage.database import Connection

_COLUMNS = "tenant_id, feedback_key, feedback_config, modified_at"


async def put_config(
    connection: Connection, tenant_id: UUID, key: str, config: dict[str, Any], *, replace: bool
) -> DictRow:
    """Set a key's configuration; without `replace` an existing one stays. The configuration that now holds."""
    action = (
        "UPDATE SET feedback_config = excluded.feedback_config, modified_at = now()" if replace else "NOTHING"
    )
    cursor = await connection.execute(
        "INSERT INTO feedback_configs (tenant_id, feedback_key, feedback_config) VALUES (%s, %s, %s)"
        f" ON CONFLICT (tenant_id, feedback_key) DO {action} RETURNING {_COLUMNS}".encode(),
        (tenant_id, key, Json(config)),
    )
    row = await cursor.fetchone()
    return row or (await list_configs(connection, tenant_id, [key]))[0]


async def list_configs(
    connection: Connection, tenant_id: UUID, keys: list[str] | None, limit: int = 100, offset: int = 0
) -> list[DictRow]:
    """By key."""
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM feedback_configs WHERE tenant_id = %(tenant_id)s"
        " AND (%(keys)s::text[] IS NULL OR feedback_key = ANY(%(keys)s)) ORDER BY feedback_key"
        " LIMIT %(limit)s OFFSET %(offset)s",
        {"tenant_id": tenant_id, "keys": keys, "limit": limit, "offset": offset},
    )
    return await cursor.fetchall()


async def delete_config(connection: Connection, tenant_id: UUID, key: str) -> bool:
    cursor = await connection.execute(
        "DELETE FROM feedback_configs WHERE tenant_id = %s AND feedback_key = %s", (tenant_id, key)
    )
    return cursor.rowcount == 1
