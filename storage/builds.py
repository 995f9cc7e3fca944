"""Builds of revisions: which of them may still be started, on which listener's host they are."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from storage.database import Connection


async def listeners_with_builds(connection: Connection) -> list[UUID]:
    """Of every workspace."""
    cursor = await connection.execute(
        "SELECT DISTINCT d.listener_id FROM deployments d JOIN revisions r ON r.deployment_id = d.id"
        " AND r.tenant_id = d.tenant_id WHERE r.build IS NOT NULL"
    )
    return [row["listener_id"] for row in await cursor.fetchall()]


async def forget_builds(
    connection: Connection, listener_id: UUID, keep: int, ended: Collection[str]
) -> list[UUID]:
    """Take their builds from the revisions of a listener that will not be started again; those revisions.

    Of each deployment stay the newest `keep`, the newest and the serving one, what is being rolled out, and what
    has had workers within the last hour.
    """
    cursor = await connection.execute(
        "UPDATE revisions SET build = NULL, updated_at = now() WHERE id IN (SELECT id FROM ("
        "SELECT r.id, r.status, d.active_revision_id AS active, d.latest_revision_id AS latest,"
        " row_number() OVER (PARTITION BY r.deployment_id ORDER BY r.number DESC) AS age"
        " FROM revisions r JOIN deployments d ON d.id = r.deployment_id AND d.tenant_id = r.tenant_id"
        " WHERE d.listener_id = %(listener_id)s AND r.build IS NOT NULL) built"
        " WHERE age > %(keep)s AND status = ANY(%(ended)s)"
        " AND id IS DISTINCT FROM active AND id IS DISTINCT FROM latest"
        " AND NOT EXISTS (SELECT FROM worker_sets w WHERE w.revision_id = built.id"
        " AND (w.desired = 'running' OR w.updated_at > now() - interval '1 hour'))) RETURNING id",
        {"listener_id": listener_id, "keep": keep, "ended": [str(status) for status in ended]},
    )
    return [row["id"] for row in await cursor.fetchall()]


async def builds_on(connection: Connection, listener_id: UUID) -> list[dict[str, Any]]:
    """All builds that a listener has to keep, of every workspace."""
    cursor = await connection.execute(
        "SELECT r.build FROM revisions r JOIN deployments d ON d.id = r.deployment_id AND d.tenant_id = r.tenant_id"
        " WHERE d.listener_id = %s AND r.build IS NOT NULL",
        (listener_id,),
    )
    return [row["build"] for row in await cursor.fetchall()]
