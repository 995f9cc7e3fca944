"""Writes to threads' states that clients ask for and revision workers execute."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json

from storage.database import Connection
from storage.run_settlement import NOTIFY_THREAD, refresh_thread
from storage.scope import ScopedRepository


class StateUpdates(ScopedRepository):
    """State updates of one deployment; workflows.messages.revision.UpdateState says what is in a request."""

    async def hold_thread(self, thread_id: UUID) -> DictRow | None:
        """The thread's metadata, and `busy`: whether a run waits or runs. Until the transaction ends no run is added.

        `busy` is read from the locked row, not from `runs`: of other tables the statement would see what was there
        before it waited.
        """
        return await self.one(
            "SELECT metadata, status = 'busy' AS busy FROM threads"
            " WHERE {scope} AND thread_id = %(thread_id)s FOR NO KEY UPDATE",
            {"thread_id": thread_id},
        )

    async def add(self, update_id: UUID, thread_id: UUID, graph_id: str, request: dict[str, Any]) -> None:
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

    async def is_open(self, update_id: UUID) -> bool:
        """Whether the update is still to be executed, or being executed."""
        row = await self.one(
            "SELECT 1 AS one FROM state_updates WHERE {scope} AND update_id = %(update_id)s AND outcome IS NULL",
            {"update_id": update_id},
        )
        return row is not None

    async def take(self, update_id: UUID) -> DictRow | None:
        """Remove the request and return its `claimed_at` and `response`; a worker that comes later finds nothing.

        None: it went with its thread.
        """
        return await self.one(
            "DELETE FROM state_updates WHERE {scope} AND update_id = %(update_id)s RETURNING claimed_at, response",
            {"update_id": update_id},
        )


async def settle_state_update(connection: Connection, thread_id: UUID, update_id: UUID, outcome: str) -> None:
    """End an update and bring its thread in step with the newest state. Repeating changes nothing."""
    await connection.execute("SELECT FROM threads WHERE thread_id = %s FOR UPDATE", (thread_id,))
    cursor = await connection.execute(
        "UPDATE state_updates SET outcome = %s WHERE update_id = %s AND thread_id = %s"
        " RETURNING claimed_at IS NOT NULL AND response ->> 'error' IS NULL AS may_have_written",
        (outcome, update_id, thread_id),
    )
    row = await cursor.fetchone()
    if row and row["may_have_written"]:
        await refresh_thread(connection, thread_id, None)
    else:
        await connection.execute(NOTIFY_THREAD, (str(thread_id),))


async def has_open_update(connection: Connection, thread_id: UUID) -> bool:
    """Whether somebody may be writing to a thread's state for an update."""
    cursor = await connection.execute(
        "SELECT 1 AS one FROM state_updates WHERE thread_id = %s AND outcome IS NULL", (thread_id,)
    )
    return await cursor.fetchone() is not None
