"""Connections to PostgreSQL: one pool per process."""

import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool

Connection = AsyncConnection[DictRow]

# Also how long a request takes to say that the database is away.
_WAIT_SECONDS = 4.0


def dump_json(value: Any) -> bytes:
    """JSON text of `value`: plain types, dataclasses, datetimes and UUIDs."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


set_json_dumps(dump_json)
set_json_loads(orjson.loads)


async def _require_open(connection: Connection) -> None:
    """Raises if the server has closed an idle connection.

    Its socket tells: from an open one there is nothing to read. To ask the server, as psycopg's own check does, would
    be a round trip before every use.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        await AsyncConnectionPool.check_connection(connection)


class Database:
    """The process's pool. `async with Database(url, size) as database`."""

    def __init__(self, url: str, pool_size: int) -> None:
        self.url = url
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            min_size=2,
            max_size=pool_size,
            open=False,
            timeout=_WAIT_SECONDS,
            # By default the pool waits between attempts as long as the outage has lasted, up to minutes: given up soon,
            # the next request tries at once.
            reconnect_timeout=5.0,
            kwargs={"autocommit": True, "row_factory": dict_row},
            check=_require_open,
        )

    async def __aenter__(self) -> "Database":
        await self._pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def connection(self, wait_seconds: float | None = None) -> AsyncIterator[Connection]:
        """A connection in autocommit mode: each statement is its own transaction.

        Raises:
            PoolTimeout: none was free, or none could be made, within `wait_seconds` (default 4).
        """
        async with self._pool.connection(wait_seconds) as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self, wait_seconds: float | None = None) -> AsyncIterator[Connection]:
        """A connection inside one transaction: committed at the end, rolled back on an exception.

        Raises:
            PoolTimeout: as `connection`.
        """
        async with self._pool.connection(wait_seconds) as connection, connection.transaction():
            yield connection
