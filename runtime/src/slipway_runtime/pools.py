"""Pools of database connections, and the event loops that they belong to."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

Pool = AsyncConnectionPool[AsyncConnection[DictRow]]
T = TypeVar("T")


def open_pool(database_url: str, size: int) -> Pool:
    """A pool of autocommitting connections, not opened yet.

    It does not ask each connection whether it lives: every use is repeated after a broken one instead.
    """
    pool: Pool = AsyncConnectionPool(
        database_url,
        min_size=1,
        max_size=size,
        open=False,
        timeout=10.0,
        kwargs={"autocommit": True, "row_factory": dict_row},
    )
    return pool


@dataclass(frozen=True)
class HomePool:
    """A pool for callers in other loops than its own: what they do with it, they do in its loop.

    Transactions need this. One that began in the user's loop would stay open, with its row locks, for as long as
    user code blocks that loop.
    """

    pool: Pool
    loop: asyncio.AbstractEventLoop

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, computed in the pool's loop; cancelling the caller cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self.loop))
