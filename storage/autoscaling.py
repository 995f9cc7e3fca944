"""How many worker processes deployments have and need."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.database import Connection


@dataclass(frozen=True)
class Load:
    """The serving worker set of a deployment whose number of processes may vary, and its runs."""

    tenant_id: UUID
    worker_set_id: UUID
    replicas: int
    resource_spec: dict[str, Any]
    surplus_since: datetime | None
    pending: int
    running: int


async def loads(connection: Connection) -> list[Load]:
    """Of all workspaces: the platform's own view, for its autoscaler."""
    cursor = await connection.execute(
        "SELECT s.tenant_id, s.id AS worker_set_id, s.replicas, s.surplus_since,"
        " r.source_config->'resource_spec' AS resource_spec,"
        " count(runs) FILTER (WHERE runs.status = 'pending') AS pending,"
        " count(runs) FILTER (WHERE runs.status = 'running') AS running"
        " FROM worker_sets s JOIN deployments d ON d.id = s.deployment_id"
        " AND d.active_revision_id = s.revision_id AND d.deleted_at IS NULL"
        " JOIN revisions r ON r.id = s.revision_id"
        " LEFT JOIN runs ON runs.deployment_id = d.id AND runs.status IN ('pending', 'running')"
        " WHERE s.desired = 'running' AND r.source_config->'resource_spec' IS NOT NULL GROUP BY s.id, r.id"
    )
    return [Load(**row) for row in await cursor.fetchall()]


async def set_replicas(connection: Connection, load: Load, replicas: int) -> None:
    """Another number of processes; the listener follows."""
    await connection.execute(
        "UPDATE worker_sets SET replicas = %s, surplus_since = NULL, updated_at = now()"
        " WHERE tenant_id = %s AND id = %s",
        (replicas, load.tenant_id, load.worker_set_id),
    )


async def note_surplus(connection: Connection, load: Load, *, surplus: bool) -> None:
    """Since when there are more processes than needed; or that there are not."""
    await connection.execute(
        "UPDATE worker_sets SET surplus_since = CASE WHEN %s THEN coalesce(surplus_since, now()) END"
        " WHERE tenant_id = %s AND id = %s AND (surplus_since IS NULL) = %s",
        (surplus, load.tenant_id, load.worker_set_id, surplus),
    )
