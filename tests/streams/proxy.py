"""A way to the API that a test can cut, as networks and load balancers do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

from tests.runtime.harness import eventually
from tests.streams.conftest import Address, Served

_PIECE_BYTES = 65_536


class CuttableWay:
    """Passes bytes between clients and a deployment. `opened`: how many connections there were so far."""

    def __init__(self, served: Served) -> None:
        self.opened = 0
        self.address = Address(served.url, served.api_key)
        self._served = served
        self._target = urlsplit(served.url)
        self._open: set[asyncio.StreamWriter] = set()

    async def cut_after(self, thread_id: str, events: int) -> int:
        """Break every connection once the thread has so many events; how many broke."""

        async def under_way() -> bool:
            query = "SELECT FROM threads WHERE thread_id = %s AND event_seq >= %s"
            return bool(await self._served.rows(query, thread_id, events))

        await eventually(under_way)
        broken = list(self._open)
        for writer in broken:
            writer.transport.abort()
        return len(broken)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, until either side ends it."""
        self.opened += 1
        there_reader, there_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        ends = {writer, there_writer}
        self._open |= ends
        directions = [
            asyncio.create_task(_copy(reader, there_writer)),
            asyncio.create_task(_copy(there_reader, writer)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open -= ends
            for task in directions:
                task.cancel()
            for end in ends:
                end.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


@contextlib.asynccontextmanager
async def cuttable_way(served: Served) -> AsyncIterator[CuttableWay]:
    """`address` leads to the deployment through a port that the test owns."""
    way = CuttableWay(served)
    server = await asyncio.start_server(way.carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = urlsplit(served.url)
    way.address = Address(urlunsplit(target._replace(netloc=f"127.0.0.1:{port}")), served.api_key)
    try:
        yield way
    finally:
        server.close()
        for writer in way._open:
            writer.transport.abort()
