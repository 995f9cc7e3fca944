"""Revisions: one row per version of a deployment, a projection of its workflow."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from storage.database import Connection

_COLUMNS = (
    "id, deployment_id, tenant_id, number, status, status_message, source, source_config, source_revision_config,"
    " secrets, secret_references, build, created_at, updated_at"
)
_JSON = {"source_config", "source_revision_config", "secret_references", "build", "description"}


@dataclass(frozen=True)
class Revision:
    """A row of `revisions`, without the large description. `secrets` is encrypted."""

    id: UUID
    deployment_id: UUID
    tenant_id: UUID
    number: int
    status: str
    status_message: str | None
    source: str
    source_config: dict[str, Any]
    source_revision_config: dict[str, Any]
    secrets: bytes | None
    secret_references: list[dict[str, Any]] | None
    build: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime


async def insert_revision(connection: Connection, values: dict[str, Any]) -> Revision:
    """A new revision with the next number of its deployment, whose row the caller has locked."""
    names = list(values)
    cursor = await connection.execute(
        f"INSERT INTO revisions (number, {', '.join(names)})"
        " SELECT coalesce((SELECT max(number) FROM revisions WHERE tenant_id = %(tenant_id)s"
        f" AND deployment_id = %(deployment_id)s), 0) + 1, {', '.join(f'%({name})s' for name in names)}"
        f" RETURNING {_COLUMNS}".encode(),
        _adapted(values),
    )
    row = await cursor.fetchone()
    assert row is not None
    return Revision(**row)


async def get_revision(
    connection: Connection, tenant_id: UUID, deployment_id: UUID, revision_id: UUID
) -> Revision | None:
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM revisions WHERE tenant_id = %s AND deployment_id = %s AND id = %s".encode(),
        (tenant_id, deployment_id, revision_id),
    )
    row = await cursor.fetchone()
    return Revision(**row) if row else None


async def list_revisions(
    connection: Connection,
    tenant_id: UUID,
    deployment_id: UUID,
    *,
    statuses: Collection[str] | None,
    limit: int,
    offset: int,
) -> list[Revision]:
    """Newest first."""
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM revisions WHERE tenant_id = %s AND deployment_id = %s"
        " AND (%s::text[] IS NULL OR status = ANY(%s)) ORDER BY number DESC LIMIT %s OFFSET %s".encode(),
        (
            tenant_id,
            deployment_id,
            list(statuses) if statuses is not None else None,
            list(statuses or ()),
            limit,
            offset,
        ),
    )
    return [Revision(**row) for row in await cursor.fetchall()]


async def update_revision(
    connection: Connection, tenant_id: UUID, revision_id: UUID, changes: dict[str, Any]
) -> Revision | None:
    """Set columns other than the status; None if there is no such revision."""
    assignments = "".join(f"{name} = %({name})s, " for name in changes)
    cursor = await connection.execute(
        f"UPDATE revisions SET {assignments}updated_at = now()"
        f" WHERE tenant_id = %(tenant_id)s AND id = %(revision_id)s RETURNING {_COLUMNS}".encode(),
        {**_adapted(changes), "tenant_id": tenant_id, "revision_id": revision_id},
    )
    row = await cursor.fetchone()
    return Revision(**row) if row else None


async def advance_revision(
    connection: Connection,
    tenant_id: UUID,
    revision_id: UUID,
    status: str,
    message: str | None,
    allowed_from: Collection[str],
) -> bool:
    """Move a revision on; False, and no change, if it stands where `status` cannot follow.

    A repeated call is such a case: the revision has the status already.
    """
    cursor = await connection.execute(
        "UPDATE revisions SET status = %s, status_message = %s, updated_at = now()"
        " WHERE tenant_id = %s AND id = %s AND status = ANY(%s)",
        (status, message, tenant_id, revision_id, list(allowed_from)),
    )
    return cursor.rowcount == 1


async def revision_ids(connection: Connection, tenant_id: UUID, deployment_id: UUID) -> list[UUID]:
    """All revisions of a deployment."""
    cursor = await connection.execute(
        "SELECT id FROM revisions WHERE tenant_id = %s AND deployment_id = %s", (tenant_id, deployment_id)
    )
    return [row["id"] for row in await cursor.fetchall()]


async def keep_build(
    connection: Connection, tenant_id: UUID, revision_id: UUID, build: dict[str, Any], status: str
) -> bool:
    """Note what a build made; False, and no change, if the revision no longer stands at `status`."""
    cursor = await connection.execute(
        "UPDATE revisions SET build = %s, updated_at = now() WHERE tenant_id = %s AND id = %s AND status = %s",
        (Jsonb(build), tenant_id, revision_id, status),
    )
    return cursor.rowcount == 1


async def note_commit(connection: Connection, tenant_id: UUID, revision_id: UUID, commit: str) -> None:
    """Which commit of its repository a revision is made from."""
    await connection.execute(
        "UPDATE revisions SET source_revision_config = source_revision_config || %s WHERE tenant_id = %s AND id = %s",
        (Jsonb({"repo_commit_sha": commit}), tenant_id, revision_id),
    )


async def store_description(
    connection: Connection, tenant_id: UUID, revision_id: UUID, description: object
) -> None:
    """Keep what the probe of a revision saw, a dataclass of plain types."""
    await connection.execute(
        "UPDATE revisions SET description = %s WHERE tenant_id = %s AND id = %s",
        (Jsonb(description), tenant_id, revision_id),
    )


async def graph_ids_of(connection: Connection, tenant_id: UUID, revision_id: UUID) -> list[str]:
    """Graphs that the revision's description names, in its order."""
    cursor = await connection.execute(
        "SELECT graph->>'graph_id' AS graph_id FROM revisions,"
        " jsonb_array_elements(coalesce(description->'graphs', '[]')) WITH ORDINALITY AS graphs (graph, position)"
        " WHERE tenant_id = %s AND id = %s ORDER BY position",
        (tenant_id, revision_id),
    )
    return [row["graph_id"] for row in await cursor.fetchall()]


async def tally_runs(
    connection: Connection, tenant_id: UUID, deployment_id: UUID, revision_id: UUID
) -> tuple[int, int]:
    """Runs that a revision has ended since its row last changed, and how many of them failed."""
    cursor = await connection.execute(
        "SELECT count(*) AS ended, count(*) FILTER (WHERE runs.status IN ('error', 'timeout')) AS failed"
        " FROM runs JOIN revisions r ON r.id = runs.revision_id"
        " WHERE runs.tenant_id = %s AND runs.deployment_id = %s AND runs.revision_id = %s"
        " AND runs.status IN ('success', 'error', 'timeout') AND runs.started_at >= r.updated_at",
        (tenant_id, deployment_id, revision_id),
    )
    row = await cursor.fetchone()
    assert row is not None
    return row["ended"], row["failed"]


def _adapted(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: Jsonb(value) if name in _JSON and value is not None else value for name, value in values.items()
    }
