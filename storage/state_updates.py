"""Writes to threads' states that clients ask for and revision workers execute."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json

from storage.run_settlement import refresh_thread
from storage.scope import ScopedRepository


class StateUpdates(ScopedRepository):
    """State updates of one deployment; workflows.messages.revision.UpdateState says what is in a request."""

    async def hold_thread(self, thread_id: UUID) -> DictRow | None:
        """The thread's metadata, and `busy`: whether a run waits or runs. Until the transaction ends no run is added.

        Not FOR UPDATE: workers must be able to insert states that refer to the thread. And `busy` is read from the
        locked row, not from `runs`: of other tables the statement would see what was there before it waited.
        """
        return await self.one(
            "SELECT metadata, status = 'busy' AS busy FROM threads"
            " WHERE {scope} AND thread_id = %(thread_id)s FOR NO KEY UPDATE",
            {"thread_id": thread_id},
        )

    async def add(self, update_id: UUID, thread_id: UUID, graph_id: str, request: dict[str, Any]) -> None:
        """Store a request. On a connection of its own: the worker must see it while the thread is held."""
        await self._connection.execute(
            "INSERT INTO state_updates (update_id, thread_id, deployment_id, tenant_id, graph_id, request)"
            " VALUES (%(update_id)s, %(thread_id)s, %(deployment_id)s, %(tenant_id)s, %(graph_id)s, %(request)s)",
            {
                "update_id": update_id,
                "thread_id": thread_id,
                "deployment_id": self.scope.deployment_id,
                "tenant_id": self.scope.tenant_id,
                "graph_id": graph_id,
                "request": Json(request),
            },
        )

    async def take(self, update_id: UUID) -> DictRow | None:
        """Remove the request and return its `claimed_at` and `response`; a worker that comes later finds nothing."""
        return await self.one(
            "DELETE FROM state_updates WHERE {scope} AND update_id = %(update_id)s RETURNING claimed_at, response",
            {"update_id": update_id},
        )

    async def refresh_thread(self, thread_id: UUID) -> None:
        """Bring the held thread's values, interrupts and status in step with its newest state."""
        await refresh_thread(self._connection, thread_id, None)
