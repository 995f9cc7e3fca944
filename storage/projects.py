"""Tracing projects (the contract's "sessions") and experiments."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Json

from storage.database import Connection
from storage.ids import new_id

DEFAULT_PROJECT = "default"
DEFAULT_TIER = "longlived"
MAX_NAME_LENGTH = 512


@dataclass(frozen=True, slots=True)
class Project:
    project_id: UUID
    name: str
    trace_tier: str


async def ensure_project(
    connection: Connection, tenant_id: UUID, name: str, *, extra: dict[str, Any] | None = None
) -> UUID:
    """Id of the workspace's project `name`, made if it is missing; of several callers at once, all get the same.

    Raises:
        ValueError: the name is empty, too long, or holds a NUL character.
    """
    if not name or len(name) > MAX_NAME_LENGTH or "\x00" in name:
        raise ValueError(f"A project's name has 1 to {MAX_NAME_LENGTH} characters: {name[:80]!r}")
    project_id = await find_project_id(connection, tenant_id, name)
    while project_id is None:
        cursor = await connection.execute(
            "INSERT INTO projects (id, tenant_id, name, extra) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (tenant_id, name) WHERE deleted_at IS NULL DO NOTHING RETURNING id",
            (new_id(), tenant_id, name, Json(extra) if extra else None),
        )
        row = await cursor.fetchone()
        project_id = row["id"] if row else await find_project_id(connection, tenant_id, name)
    return project_id


async def find_project_id(connection: Connection, tenant_id: UUID, name: str) -> UUID | None:
    """Id of the workspace's project `name`; None if there is none."""
    cursor = await connection.execute(
        "SELECT id FROM projects WHERE tenant_id = %s AND name = %s AND deleted_at IS NULL", (tenant_id, name)
    )
    row = await cursor.fetchone()
    return row["id"] if row else None


async def projects_for_writing(
    connection: Connection, tenant_id: UUID, names: Iterable[str], ids: Iterable[UUID]
) -> tuple[dict[str, Project], dict[UUID, Project]]:
    """Projects by name and by id, for a transaction that writes into them; those named are made if missing.

    Held until the transaction ends, so that a project is not deleted under what is acknowledged. An unknown id is
    left out of the answer.
    """
    names, ids = set(names), set(ids)
    found = await _hold(connection, tenant_id, names, ids)
    missing = names - {project.name for project in found}
    if missing:
        for name in sorted(missing):
            await ensure_project(connection, tenant_id, name)
        found = await _hold(connection, tenant_id, names, ids)
    return {project.name: project for project in found}, {project.project_id: project for project in found}


async def _hold(connection: Connection, tenant_id: UUID, names: set[str], ids: set[UUID]) -> list[Project]:
    cursor = await connection.execute(
        "SELECT id, name, coalesce(trace_tier, %s) AS trace_tier FROM projects"
        " WHERE tenant_id = %s AND deleted_at IS NULL AND (name = ANY(%s) OR id = ANY(%s)) ORDER BY id FOR SHARE",
        (DEFAULT_TIER, tenant_id, list(names), list(ids)),
    )
    return [Project(row["id"], row["name"], row["trace_tier"]) for row in await cursor.fetchall()]


async def project_of_deployment(
    connection: Connection, tenant_id: UUID, deployment_id: UUID
) -> Project | None:
    """The tracing project of a deployment, which has its name; None if there is no such deployment."""
    cursor = await connection.execute(
        "SELECT name FROM deployments WHERE tenant_id = %s AND id = %s", (tenant_id, deployment_id)
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    by_name, _ = await projects_for_writing(connection, tenant_id, [row["name"]], [])
    return by_name[row["name"]]
