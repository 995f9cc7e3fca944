"""PostgreSQL behind a connection that fails on demand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class DatabaseProxy:
    """Forwards connections to a real server until it is told otherwise. `url` is the database behind it."""

    def __init__(self, upstream_url: str) -> None:
        self._upstream = urlsplit(upstream_url)
        self._open: set[asyncio.StreamWriter] = set()
        self._is_away = False
        self._loses_commits = 0
        self.lost_commits = 0
        self.connections: set[asyncio.Task[None]] = set()
        self.url = ""

    def go_away(self) -> None:
        """Every connection breaks, and new ones are refused, until `come_back`."""
        self._is_away = True
        for writer in self._open:
            writer.transport.abort()

    def come_back(self) -> None:
        self._is_away = False

    def lose_answers_to_commits(self, times: int) -> None:
        """The next transactions commit, and their clients lose the connection before they learn it."""
        self._loses_commits = times

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        task.add_done_callback(self.connections.discard)
        if self._is_away:
            writer.transport.abort()
            return
        assert self._upstream.hostname and self._upstream.port
        up_reader, up_writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        pair = (writer, up_writer)
        self._open.update(pair)
        breaks = asyncio.Event()
        try:
            with contextlib.suppress(ConnectionError):
                await asyncio.gather(
                    self._to_server(reader, up_writer, breaks), self._to_client(up_reader, writer, breaks)
                )
        finally:
            self._open.difference_update(pair)
            for one in pair:
                one.transport.abort()

    async def _to_server(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, breaks: asyncio.Event
    ) -> None:
        while chunk := await reader.read(65_536):
            if b"COMMIT" in chunk and self._loses_commits:
                self._loses_commits -= 1
                self.lost_commits += 1
                breaks.set()
            writer.write(chunk)
            await writer.drain()
        writer.close()

    async def _to_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, breaks: asyncio.Event
    ) -> None:
        while chunk := await reader.read(65_536):
            # An answer: what was asked before is done.
            if breaks.is_set():
                raise ConnectionResetError
            writer.write(chunk)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def database_proxy(database_url: str) -> AsyncIterator[DatabaseProxy]:
    """On a free port of the loopback interface, before the server of `database_url`."""
    proxy = DatabaseProxy(database_url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    parts = urlsplit(database_url)
    proxy.url = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()
    try:
        yield proxy
    finally:
        server.close()
        proxy.go_away()
        await asyncio.gather(*proxy.connections, return_exceptions=True)
