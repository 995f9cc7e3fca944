"""Threads: the accumulated state of a group of runs."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.ids import new_id
from storage.scope import ScopedRepository

COLUMNS = (
    "thread_id, created_at, updated_at, state_updated_at, metadata, config, status, values, interrupts, error"
)
SORT_COLUMNS = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")


# A stateless run's thread is gone for clients as soon as the run has ended.
VISIBLE = "NOT (temporary AND status <> 'busy')"


class Threads(ScopedRepository):
    """Threads of one deployment. Rows are dicts of `COLUMNS`."""

    async def create(
        self,
        thread_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        ttl_strategy: str | None = None,
        ttl_minutes: float | None = None,
        temporary: bool = False,
        busy: bool = False,
    ) -> DictRow | None:
        """The new thread; None if its id is taken, by whomever."""
        cursor = await self._connection.execute(
            "INSERT INTO threads (thread_id, deployment_id, tenant_id, metadata, status, temporary, ttl_strategy,"
            " ttl_minutes, expires_at) VALUES (%(thread_id)s, %(deployment_id)s, %(tenant_id)s, %(metadata)s,"
            " %(status)s, %(temporary)s, %(ttl_strategy)s, %(ttl_minutes)s,"
            " now() + make_interval(secs => %(ttl_minutes)s::double precision * 60))"
            f" ON CONFLICT DO NOTHING RETURNING {COLUMNS}",
            {
                "thread_id": thread_id or new_id(),
                "deployment_id": self.scope.deployment_id,
                "tenant_id": self.scope.tenant_id,
                "metadata": Jsonb(metadata or {}),
                "status": "busy" if busy else "idle",
                "temporary": temporary,
                "ttl_strategy": ttl_strategy,
                "ttl_minutes": ttl_minutes,
            },
        )
        return await cursor.fetchone()

    async def get(self, thread_id: UUID) -> DictRow | None:
        return await self.one(
            f"SELECT {COLUMNS} FROM threads WHERE {{scope}} AND thread_id = %(thread_id)s AND {VISIBLE}",
            {"thread_id": thread_id},
        )

    async def lock(self, thread_id: UUID) -> DictRow | None:
        """The thread, held until the transaction ends: who creates runs on it takes turns."""
        return await self.one(
            f"SELECT {COLUMNS} FROM threads WHERE {{scope}} AND thread_id = %(thread_id)s FOR UPDATE",
            {"thread_id": thread_id},
        )

    async def set_busy(self, thread_id: UUID) -> None:
        await self.execute(
            "UPDATE threads SET status = 'busy', updated_at = now() WHERE {scope} AND thread_id = %(thread_id)s",
            {"thread_id": thread_id},
        )

    async def update(
        self,
        thread_id: UUID,
        metadata: dict[str, Any],
        *,
        ttl_strategy: str | None = None,
        ttl_minutes: float | None = None,
    ) -> DictRow | None:
        """Merge metadata, one level deep; a ttl that is given counts from now. None if there is no such thread."""
        return await self.one(
            "UPDATE threads SET metadata = metadata || %(metadata)s, updated_at = now(),"
            " ttl_strategy = coalesce(%(ttl_strategy)s, ttl_strategy),"
            " ttl_minutes = coalesce(%(ttl_minutes)s, ttl_minutes), expires_at = coalesce("
            "   now() + make_interval(secs => %(ttl_minutes)s::double precision * 60), expires_at)"
            f" WHERE {{scope}} AND thread_id = %(thread_id)s AND {VISIBLE} RETURNING {COLUMNS}",
            {
                "thread_id": thread_id,
                "metadata": Jsonb(metadata),
                "ttl_strategy": ttl_strategy,
                "ttl_minutes": ttl_minutes,
            },
        )

    async def ttl(self, thread_id: UUID) -> DictRow | None:
        """`strategy`, `ttl_minutes` and `expires_at`; None if the thread does not expire."""
        return await self.one(
            "SELECT coalesce(ttl_strategy, 'delete') AS strategy, ttl_minutes, expires_at FROM threads"
            " WHERE {scope} AND thread_id = %(thread_id)s AND ttl_minutes IS NOT NULL",
            {"thread_id": thread_id},
        )
