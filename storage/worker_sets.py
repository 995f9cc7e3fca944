"""Worker sets: which revision workers a listener has to keep running."""

from collections.abc import Collection
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


async def unwant_abandoned(connection: Connection, listener_id: UUID, ended: Collection[str]) -> list[UUID]:
    """Let go of the sets of a listener whose rollout has ended, by statuses `ended`, without leaving them to serve.

    That is seldom: who ends a rollout stops its workers, unless it was terminated. Of the revision that serves one set
    stays: the newest if its last rollout succeeded, else the oldest, which that rollout was to replace.
    """
    cursor = await connection.execute(
        "UPDATE worker_sets w SET desired = 'stopped', updated_at = now() FROM revisions r, deployments d"
        " WHERE w.listener_id = %s AND w.desired = 'running' AND r.id = w.revision_id AND d.id = w.deployment_id"
        " AND r.status = ANY(%s) AND (d.active_revision_id IS DISTINCT FROM r.id OR EXISTS ("
        "SELECT FROM worker_sets o WHERE o.revision_id = r.id AND o.desired = 'running' AND CASE r.status"
        " WHEN 'DEPLOYED' THEN (o.created_at, o.id) > (w.created_at, w.id)"
        " ELSE (o.created_at, o.id) < (w.created_at, w.id) END)) RETURNING w.id",
        (listener_id, [str(status) for status in ended]),
    )
    return [row["id"] for row in await cursor.fetchall()]


async def drain_seconds_of(connection: Connection, ids: Collection[UUID]) -> dict[UUID, float]:
    """How long the runs of each set may go on when it is stopped."""
    cursor = await connection.execute(
        "SELECT id, drain_seconds FROM worker_sets WHERE id = ANY(%s)", (list(ids),)
    )
    return {row["id"]: row["drain_seconds"] for row in await cursor.fetchall()}


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
