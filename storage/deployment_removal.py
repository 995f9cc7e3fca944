"""Removing everything that belongs to a deployment."""

from uuid import UUID

from storage.database import Connection

# langgraph's own tables know nothing of deployments: no foreign key takes their rows along.
_CHECKPOINTS = ("checkpoint_writes", "checkpoint_blobs", "checkpoints")


async def unfinished_work(
    connection: Connection, tenant_id: UUID, deployment_id: UUID
) -> tuple[list[UUID], list[int]]:
    """Threads and lanes of the deployment with runs that wait or run."""
    cursor = await connection.execute(
        "SELECT DISTINCT thread_id, lane FROM runs"
        " WHERE tenant_id = %s AND deployment_id = %s AND status IN ('pending', 'running')",
        (tenant_id, deployment_id),
    )
    rows = await cursor.fetchall()
    threads = [row["thread_id"] for row in rows if row["lane"] is None]
    return threads, sorted({row["lane"] for row in rows if row["lane"] is not None})


async def crons_of(connection: Connection, tenant_id: UUID, deployment_id: UUID) -> list[UUID]:
    """The deployment's crons, each of which has a schedule."""
    cursor = await connection.execute(
        "SELECT cron_id FROM crons WHERE tenant_id = %s AND deployment_id = %s", (tenant_id, deployment_id)
    )
    return [row["cron_id"] for row in await cursor.fetchall()]


async def remove_deployment(
    connection: Connection, tenant_id: UUID, deployment_id: UUID, *, with_project: bool
) -> None:
    """Delete the rows of a deployment: threads, runs, checkpoints, keys, and its tracing project if asked."""
    owner = (tenant_id, deployment_id)
    if with_project:
        await connection.execute(
            "UPDATE projects SET deleted_at = now() WHERE tenant_id = %s AND deleted_at IS NULL"
            " AND id = (SELECT tracer_session_id FROM deployments WHERE tenant_id = %s AND id = %s)",
            (tenant_id, *owner),
        )
    await connection.execute("DELETE FROM api_keys WHERE tenant_id = %s AND deployment_id = %s", owner)
    for table in _CHECKPOINTS:
        await connection.execute(f"DELETE FROM {table} WHERE deployment_id = %s".encode(), (deployment_id,))
    await connection.execute("DELETE FROM deployments WHERE tenant_id = %s AND id = %s", owner)
