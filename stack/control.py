"""Commands to a running supervisor, over a Unix socket in its home (mode 0600).

Each begins with a token that only who may read the home has: confined projects of the same user can connect to sockets,
but not read files.
"""

import asyncio
import contextlib
import hmac
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

from stack.home import write_secret

SOCKET_NAME = "control.sock"
_TOKEN_NAME = "control-token"

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
    """Answer one line, `<token> <action> <name>`, with one line; without the token with none."""
    token = secrets.token_hex(32)
    write_secret(home / _TOKEN_NAME, token)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            given, _, command = (await reader.readline()).decode().strip().partition(" ")
            action, _, name = command.partition(" ")
            if hmac.compare_digest(given.encode(), token.encode()):
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
        token = (home / _TOKEN_NAME).read_text()
        with _short_path(home) as path:
            reader, writer = await asyncio.open_unix_connection(path)
    except (FileNotFoundError, ConnectionRefusedError):
        raise ConnectionRefusedError(f"`slipway up` does not run on {home}.") from None
    writer.write(f"{token} {action} {name}\n".encode())
    await writer.drain()
    answer = (await reader.readline()).decode().strip()
    writer.close()
    return answer
