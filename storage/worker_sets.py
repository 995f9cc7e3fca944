"""Worker sets: which revision workers a listener has to keep running."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from storage.database import Connection

_COLUMNS = (
    "id, tenant_id, deployment_id, revision_id, listener_id, desired, replicas, drain_seconds, observed"
)


@dataclass(frozen=True)
class WorkerSet:
    """The workers of one start of a revision."""

    id: UUID
    tenant_id: UUID
    deployment_id: UUID
    revision_id: UUID
    listener_id: UUID
    desired: str
    replicas: int
    drain_seconds: float
    observed: list[dict[str, Any]]


async def want_workers(
    connection: Connection,
    *,
    worker_set_id: UUID,
    tenant_id: UUID,
    deployment_id: UUID,
    revision_id: UUID,
    listener_id: UUID,
    replicas: int,
    drain_seconds: float,
) -> WorkerSet | None:
    """The set, made if it is new; None if its deployment is gone. A set that was stopped stays stopped."""
    await connection.execute(
        "INSERT INTO worker_sets (id, tenant_id, deployment_id, revision_id, listener_id, replicas, drain_seconds)"
        " SELECT %s, r.tenant_id, r.deployment_id, r.id, %s, %s, %s FROM revisions r"
        " WHERE r.tenant_id = %s AND r.deployment_id = %s AND r.id = %s ON CONFLICT DO NOTHING",
        (worker_set_id, listener_id, replicas, drain_seconds, tenant_id, deployment_id, revision_id),
    )
    return await get_worker_set(connection, tenant_id, worker_set_id)


async def get_worker_set(connection: Connection, tenant_id: UUID, worker_set_id: UUID) -> WorkerSet | None:
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM worker_sets WHERE tenant_id = %s AND id = %s".encode(),
        (tenant_id, worker_set_id),
    )
    row = await cursor.fetchone()
    return WorkerSet(**row) if row else None


async def unwant_workers(connection: Connection, tenant_id: UUID, worker_set_id: UUID) -> None:
    await connection.execute(
        "UPDATE worker_sets SET desired = 'stopped', updated_at = now() WHERE tenant_id = %s AND id = %s",
        (tenant_id, worker_set_id),
    )


async def wanted_workers(connection: Connection, listener_id: UUID) -> list[WorkerSet]:
    """All sets, of every workspace, that a listener has to run."""
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM worker_sets WHERE listener_id = %s AND desired = 'running'"
        " ORDER BY created_at".encode(),
        (listener_id,),
    )
    return [WorkerSet(**row) for row in await cursor.fetchall()]


async def other_workers(
    connection: Connection, tenant_id: UUID, deployment_id: UUID, worker_set_id: UUID | None
) -> list[WorkerSet]:
    """The running sets of a deployment but one."""
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM worker_sets WHERE tenant_id = %s AND deployment_id = %s AND desired = 'running'"
        " AND id IS DISTINCT FROM %s ORDER BY created_at".encode(),
        (tenant_id, deployment_id, worker_set_id),
    )
    return [WorkerSet(**row) for row in await cursor.fetchall()]


async def scale_workers(connection: Connection, tenant_id: UUID, worker_set_id: UUID, replicas: int) -> None:
    await connection.execute(
        "UPDATE worker_sets SET replicas = %s, updated_at = now() WHERE tenant_id = %s AND id = %s",
        (replicas, tenant_id, worker_set_id),
    )


async def report_workers(
    connection: Connection, listener_id: UUID, worker_set_id: UUID, observed: list[dict[str, Any]]
) -> None:
    """What a listener sees of a set: one object per process."""
    await connection.execute(
        "UPDATE worker_sets SET observed = %s, updated_at = now() WHERE listener_id = %s AND id = %s",
        (Jsonb(observed), listener_id, worker_set_id),
    )
