"""Public states of threads: one per checkpoint, written by revision workers, read without them."""

from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from storage.scope import ScopedRepository

_OF_THREAD = (
    " FROM thread_states s JOIN threads USING (thread_id, deployment_id)"
    " WHERE {scope} AND thread_id = %(thread_id)s AND checkpoint_ns = %(namespace)s"
)


class States(ScopedRepository):
    """States of one deployment's threads, as JSON texts of ThreadState (agent server contract §3.3)."""

    async def has_thread(self, thread_id: UUID) -> bool:
        row = await self.one(
            "SELECT 1 FROM threads WHERE {scope} AND thread_id = %(thread_id)s", {"thread_id": thread_id}
        )
        return row is not None

    async def find(
        self, thread_id: UUID, namespace: str = "", checkpoint_id: str | None = None
    ) -> str | None:
        """The state at a checkpoint, by default the newest of its namespace; None if there is none."""
        row = await self.one(
            f"SELECT s.state::text AS state{_OF_THREAD}"
            " AND (%(checkpoint_id)s::text IS NULL OR checkpoint_id = %(checkpoint_id)s)"
            " ORDER BY checkpoint_id DESC LIMIT 1",
            {"thread_id": thread_id, "namespace": namespace, "checkpoint_id": checkpoint_id},
        )
        return str(row["state"]) if row else None

    async def newest_of(self, thread_id: UUID, namespaces: list[str]) -> dict[str, str]:
        """The newest state of each of these namespaces that has one."""
        rows = await self.all(
            "SELECT DISTINCT ON (checkpoint_ns) checkpoint_ns, s.state::text AS state"
            " FROM thread_states s JOIN threads USING (thread_id, deployment_id)"
            " WHERE {scope} AND thread_id = %(thread_id)s AND checkpoint_ns = ANY(%(namespaces)s)"
            " ORDER BY checkpoint_ns, checkpoint_id DESC",
            {"thread_id": thread_id, "namespaces": namespaces},
        )
        return {row["checkpoint_ns"]: row["state"] for row in rows}

    async def history(
        self,
        thread_id: UUID,
        limit: int,
        *,
        namespace: str = "",
        checkpoint_id: str | None = None,
        before: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> list[str]:
        """Newest first: those before a checkpoint, whose metadata contains `metadata`."""
        rows = await self.all(
            f"SELECT s.state::text AS state{_OF_THREAD}"
            " AND (%(checkpoint_id)s::text IS NULL OR checkpoint_id = %(checkpoint_id)s)"
            " AND (%(before)s::text IS NULL OR checkpoint_id < %(before)s)"
            " AND s.metadata @> %(metadata)s ORDER BY checkpoint_id DESC LIMIT %(limit)s",
            {
                "thread_id": thread_id,
                "namespace": namespace,
                "checkpoint_id": checkpoint_id,
                "before": before,
                "metadata": Jsonb(metadata or {}),
                "limit": limit,
            },
        )
        return [str(row["state"]) for row in rows]
