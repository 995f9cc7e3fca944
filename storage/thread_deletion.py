"""Deleting threads, and what of them langgraph's own tables hold."""

from typing import Any
from uuid import UUID

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.types.json import Jsonb

from storage.database import Connection
from storage.scope import ScopedRepository
from storage.state_updates import has_open_update

_CHECKPOINT_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


class ThreadDeletion(ScopedRepository):
    """Chooses threads of one deployment for deletion and holds them until the transaction ends."""

    async def hold(
        self, thread_ids: list[UUID], metadata: dict[str, Any], *, idle_only: bool = False
    ) -> list[UUID]:
        """Those of `thread_ids` that exist and contain this metadata; with `idle_only` none with an unfinished run."""
        rows = await self.all(
            "SELECT thread_id FROM threads WHERE {scope} AND thread_id = ANY(%(thread_ids)s)"
            f" AND metadata @> %(metadata)s{_IDLE if idle_only else ''} ORDER BY thread_id FOR UPDATE",
            {"thread_ids": thread_ids, "metadata": Jsonb(metadata)},
        )
        return [row["thread_id"] for row in rows]

    async def containing(self, metadata: dict[str, Any], limit: int) -> list[UUID]:
        """Threads whose metadata contain this; that of a thread names the assistant of its last run."""
        rows = await self.all(
            "SELECT thread_id FROM threads WHERE {scope} AND metadata @> %(metadata)s LIMIT %(limit)s",
            {"metadata": Jsonb(metadata), "limit": limit},
        )
        return [row["thread_id"] for row in rows]


# Read from the locked row, which is never older than the lock; runs could have been added while it was waited for.
_IDLE = " AND status <> 'busy'"


async def delete_threads(connection: Connection, thread_ids: list[UUID]) -> None:
    """Delete threads that the caller holds, with runs, events, states and checkpoints."""
    texts = [str(thread_id) for thread_id in thread_ids]
    await connection.execute("DELETE FROM threads WHERE thread_id = ANY(%s)", (thread_ids,))
    for table in _CHECKPOINT_TABLES:
        await connection.execute(f"DELETE FROM {table} WHERE thread_id = ANY(%s)".encode(), (texts,))


async def keep_latest_state(holder: Connection, other: Connection, thread_id: UUID) -> bool:
    """Delete all but the newest checkpoint of each namespace of a thread that `holder`'s transaction holds.

    What older checkpoints hold and the newest still needs is langgraph's knowledge, so its saver prunes, in a
    transaction of its own on `other`. False if it cannot: the thread's graph keeps its state as differences, or a
    state update is under way, which may build upon an older checkpoint.
    """
    if await has_open_update(holder, thread_id):
        return False
    try:
        await AsyncPostgresSaver(other).aprune([str(thread_id)], strategy="keep_latest")
    except NotImplementedError:
        return False
    await holder.execute(
        "DELETE FROM thread_states s WHERE s.thread_id = %(id)s AND NOT EXISTS (SELECT FROM checkpoints c"
        " WHERE c.thread_id = %(id)s::text AND c.checkpoint_ns = s.checkpoint_ns"
        " AND c.checkpoint_id = s.checkpoint_id)",
        {"id": thread_id},
    )
    return True
