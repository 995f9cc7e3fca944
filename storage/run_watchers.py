"""Clients connected to runs that are cancelled when they go, so that a death of their API process is noticed."""

from uuid import UUID

from psycopg.rows import DictRow

from storage.database import Connection
from storage.scope import ScopedRepository

# A watcher that is not renewed for so long is gone.
LEASE_SECONDS = 30.0

_RENEW = """
INSERT INTO run_watchers (watcher_id, run_id, deployment_id, tenant_id, expires_at)
SELECT %(watcher_id)s, run_id, deployment_id, tenant_id, clock_timestamp() + make_interval(secs => %(lease)s)
FROM runs WHERE {scope} AND run_id = %(run_id)s
ON CONFLICT (watcher_id) DO UPDATE SET expires_at = excluded.expires_at
"""
_LAPSED = """
SELECT w.watcher_id, r.run_id, r.thread_id, r.deployment_id, r.lane, r.status IN ('pending', 'running') AS unfinished
FROM run_watchers w JOIN runs r USING (run_id) WHERE w.expires_at < clock_timestamp()
ORDER BY w.expires_at LIMIT %s
"""


class RunWatchers(ScopedRepository):
    """Watchers of one deployment's runs."""

    async def renew(self, watcher_id: UUID, run_id: UUID) -> None:
        """The watcher is there, for another lease; of a run that is no more there is nothing to watch."""
        await self.execute(_RENEW, {"watcher_id": watcher_id, "run_id": run_id, "lease": LEASE_SECONDS})

    async def remove(self, watcher_id: UUID) -> None:
        await self.execute(
            "DELETE FROM run_watchers WHERE {scope} AND watcher_id = %(watcher_id)s",
            {"watcher_id": watcher_id},
        )


async def lapsed_watchers(connection: Connection, limit: int) -> list[DictRow]:
    """Watchers that were not renewed in time, each with its run. For the sweep: over all workspaces."""
    return await (await connection.execute(_LAPSED, (limit,))).fetchall()


async def remove_watcher(connection: Connection, watcher_id: UUID) -> None:
    await connection.execute("DELETE FROM run_watchers WHERE watcher_id = %s", (watcher_id,))
