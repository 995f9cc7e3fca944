"""Commands to a running supervisor, over a Unix socket in its home (mode 0600)."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

SOCKET_NAME = "control.sock"

# (action, process name) -> answer
Handler = Callable[[str, str], Awaitable[str]]


@contextlib.contextmanager
def _short_path(home: Path) -> Iterator[str]:
    """A path of the socket that is never too long for a socket address, however deep the home lies."""
    descriptor = os.open(home, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


@contextlib.asynccontextmanager
async def serve_commands(home: Path, handler: Handler) -> AsyncIterator[None]:
    """Answer one line, `<action> <name>`, with one line."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            action, _, name = (await reader.readline()).decode().strip().partition(" ")
            writer.write(f"{await handler(action, name)}\n".encode())
            await writer.drain()
        writer.close()

    (home / SOCKET_NAME).unlink(missing_ok=True)
    with _short_path(home) as path:
        previous = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(serve, path)
        finally:
            os.umask(previous)
    try:
        async with server:
            yield
    finally:
        (home / SOCKET_NAME).unlink(missing_ok=True)


async def send_command(home: Path, action: str, name: str) -> str:
    """The supervisor's answer.

    Raises:
        ConnectionError: no supervisor runs on this home.
    """
    try:
        with _short_path(home) as path:
            reader, writer = await asyncio.open_unix_connection(path)
    except (FileNotFoundError, ConnectionRefusedError):
        raise ConnectionRefusedError(f"`slipway up` does not run on {home}.") from None
    writer.write(f"{action} {name}\n".encode())
    await writer.drain()
    answer = (await reader.readline()).decode().strip()
    writer.close()
    return answer
