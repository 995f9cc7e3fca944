"""Listeners: registrations of compute infrastructure (mission document, Listener)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from storage.database import Connection
from storage.ids import new_id

BUILT_IN_LISTENER_ID = UUID("00000000-0000-4000-8000-000000000001")
_COLUMNS = "id, tenant_id, version, compute_type, compute_id, compute_config, created_at, updated_at"


class ListenerExistsError(Exception):
    """The workspace has a listener with that compute id."""


class ListenerInUseError(Exception):
    """Deployments are bound to the listener."""


@dataclass(frozen=True)
class Listener:
    """A row of `listeners`; `tenant_id` is None for the built-in one."""

    id: UUID
    tenant_id: UUID | None
    version: str | None
    compute_type: str
    compute_id: str
    compute_config: dict[str, Any]
    created_at: datetime
    updated_at: datetime


async def find_listener(connection: Connection, listener_id: UUID) -> Listener | None:
    """Any listener, for the process that is told to be it."""
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM listeners WHERE id = %s".encode(), (listener_id,)
    )
    row = await cursor.fetchone()
    return Listener(**row) if row else None


async def create_listener(
    connection: Connection,
    tenant_id: UUID,
    *,
    version: str | None,
    compute_type: str,
    compute_id: str,
    compute_config: dict[str, Any],
) -> Listener:
    """A new listener.

    Raises:
        ListenerExistsError: the workspace has one for this `compute_id`.
    """
    try:
        cursor = await connection.execute(
            "INSERT INTO listeners (id, tenant_id, version, compute_type, compute_id, compute_config)"
            f" VALUES (%s, %s, %s, %s, %s, %s) RETURNING {_COLUMNS}".encode(),
            (new_id(), tenant_id, version, compute_type, compute_id, Jsonb(compute_config)),
        )
    except UniqueViolation as error:
        raise ListenerExistsError(compute_id) from error
    row = await cursor.fetchone()
    assert row is not None
    return Listener(**row)


async def get_listener(connection: Connection, tenant_id: UUID, listener_id: UUID) -> Listener | None:
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM listeners WHERE tenant_id = %s AND id = %s".encode(),
        (tenant_id, listener_id),
    )
    row = await cursor.fetchone()
    return Listener(**row) if row else None


async def list_listeners(
    connection: Connection, tenant_id: UUID, limit: int = 100, offset: int = 0
) -> list[Listener]:
    """The workspace's own listeners, newest first."""
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM listeners WHERE tenant_id = %s"
        " ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s".encode(),
        (tenant_id, limit, offset),
    )
    return [Listener(**row) for row in await cursor.fetchall()]


async def update_listener(
    connection: Connection, tenant_id: UUID, listener_id: UUID, changes: dict[str, Any]
) -> Listener | None:
    """Set `version` or `compute_config`; None if the workspace has no such listener."""
    values = {name: Jsonb(value) if name == "compute_config" else value for name, value in changes.items()}
    assignments = "".join(f"{name} = %({name})s, " for name in values)
    cursor = await connection.execute(
        f"UPDATE listeners SET {assignments}updated_at = now()"
        f" WHERE tenant_id = %(tenant_id)s AND id = %(listener_id)s RETURNING {_COLUMNS}".encode(),
        {**values, "tenant_id": tenant_id, "listener_id": listener_id},
    )
    row = await cursor.fetchone()
    return Listener(**row) if row else None


async def delete_listener(connection: Connection, tenant_id: UUID, listener_id: UUID) -> bool:
    """Remove a listener; False if there is none.

    Raises:
        ListenerInUseError: deployments are bound to it.
    """
    cursor = await connection.execute(
        "SELECT FROM deployments WHERE tenant_id = %s AND listener_id = %s LIMIT 1", (tenant_id, listener_id)
    )
    if await cursor.fetchone() is not None:
        raise ListenerInUseError(str(listener_id))
    cursor = await connection.execute(
        "DELETE FROM listeners WHERE tenant_id = %s AND id = %s", (tenant_id, listener_id)
    )
    return cursor.rowcount == 1


async def report_version(connection: Connection, listener_id: UUID, version: str) -> None:
    """A running listener says that it is there, and which version it is."""
    await connection.execute(
        "UPDATE listeners SET version = %s, updated_at = now() WHERE id = %s", (version, listener_id)
    )
