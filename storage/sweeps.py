"""What has expired, and deleting it batch by batch. For platform activities: over all workspaces."""

from collections.abc import Awaitable, Callable

from storage.database import Database
from storage.store import sweep_expired_items
from storage.thread_deletion import delete_threads, keep_latest_state
from storage.thread_events import sweep_events

_EXPIRED = """
SELECT thread_id, ttl_strategy FROM threads
WHERE expires_at <= now() AND status <> 'busy'
ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED
"""

Sweeper = Callable[[Database], Awaitable[tuple[int, bool]]]
"""Deals with one batch; how many rows that were, and whether more may be waiting."""


async def sweep_threads(database: Database, batch: int = 100) -> tuple[int, bool]:
    """Threads whose time is over and that have no unfinished run: deleted, or cut down to their newest state."""
    async with database.transaction() as holder:
        rows = await (await holder.execute(_EXPIRED, (batch,))).fetchall()
        kept = [row["thread_id"] for row in rows if row["ttl_strategy"] == "keep_latest"]
        await delete_threads(holder, [row["thread_id"] for row in rows if row["thread_id"] not in kept])
        for thread_id in kept:
            async with database.connection() as other:
                await keep_latest_state(holder, other, thread_id)
        await holder.execute(
            "UPDATE threads SET expires_at = now() + make_interval(secs => ttl_minutes * 60)"
            " WHERE thread_id = ANY(%s)",
            (kept,),
        )
    return len(rows), len(rows) == batch


async def sweep_thread_events(database: Database, hours: float, batch: int = 10_000) -> tuple[int, bool]:
    """Events older than their retention."""
    async with database.connection() as connection:
        swept = await sweep_events(connection, hours * 3600, batch)
    return swept, swept == batch


async def sweep_state_updates(database: Database) -> tuple[int, bool]:
    """Requests whose API process died before it could take the answer."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "DELETE FROM state_updates WHERE created_at < now() - interval '1 hour'"
        )
    return cursor.rowcount, False


async def sweep_store_items(database: Database, batch: int = 10_000) -> tuple[int, bool]:
    """Items of the store whose time is over."""
    async with database.connection() as connection:
        rows = await sweep_expired_items(connection, batch)
    return rows, rows == batch


async def sweep_revision_calls(database: Database) -> tuple[int, bool]:
    """Calls whose API process died before it could take the answer."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "DELETE FROM revision_calls WHERE created_at < now() - interval '10 minutes'"
        )
    return cursor.rowcount, False


async def sweep_webhook_deliveries(database: Database) -> tuple[int, bool]:
    """Deliveries that were given up."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "DELETE FROM webhook_deliveries WHERE created_at < now() - interval '7 days'"
        )
    return cursor.rowcount, False
