"""An S3 endpoint that fails on demand: forwards to a real one, unless a rule says otherwise."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Request:
    """One request of a client. `target` holds path and query."""

    method: str
    target: str

    @property
    def part_number(self) -> int | None:
        """Of an uploaded part."""
        for pair in self.target.partition("?")[2].split("&"):
            if pair.lower().startswith("partnumber="):
                return int(pair.partition("=")[2])
        return None

    @property
    def writes_data(self) -> bool:
        return self.method == "PUT" and ".parquet" in self.target


@dataclass(frozen=True)
class Refuse:
    """Answer with an S3 error."""

    status: int
    code: str


@dataclass(frozen=True)
class Drop:
    """Close the connection without an answer."""


@dataclass(frozen=True)
class Delay:
    """Forward after some seconds."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """Forward once `released` is set."""

    released: asyncio.Event


@dataclass(frozen=True)
class Accept:
    """Answer with 200, and forward nothing."""


Fault = Refuse | Drop | Delay | Hold | Accept | None


@dataclass
class FaultProxy:
    """`rule` decides about each request; set it at any time. `requests` are all that came."""

    url: str
    rule: Callable[[Request], Fault] = lambda _: None
    requests: list[Request] = field(default_factory=list)


@asynccontextmanager
async def fault_proxy(upstream_url: str) -> AsyncIterator[FaultProxy]:
    """On a free port of the loopback interface, before the server at `upstream_url`."""
    upstream = urlsplit(upstream_url)
    proxy = FaultProxy("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await _handle(proxy, reader, writer, str(upstream.hostname), upstream.port or 80)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024 * 1024)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield proxy


async def _handle(
    proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
) -> None:
    """One request per connection: signatures cover the host, so it is passed on as it came."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = lines[0].split(" ", 2)
    headers = [line for line in lines[1:] if not line.lower().startswith(("connection:", "expect:"))]
    if any(line.lower().startswith("expect:") for line in lines):
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    length = next(
        (int(line.partition(":")[2]) for line in lines if line.lower().startswith("content-length:")), 0
    )
    body = await reader.readexactly(length)
    request = Request(method, target)
    proxy.requests.append(request)
    match proxy.rule(request):
        case Drop():
            return
        case Refuse(status, code):
            writer.write(_error(status, code))
            await writer.drain()
            return
        case Accept():
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            return
        case Delay(seconds):
            await asyncio.sleep(seconds)
        case Hold(released):
            await released.wait()
    up_reader, up_writer = await asyncio.open_connection(host, port)
    try:
        up_writer.write("\r\n".join([lines[0], *headers, "Connection: close", "", ""]).encode("latin-1"))
        up_writer.write(body)
        await up_writer.drain()
        while chunk := await up_reader.read(64 * 1024):
            writer.write(chunk)
            await writer.drain()
    finally:
        up_writer.close()


def _error(status: int, code: str) -> bytes:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    head = (
        f"HTTP/1.1 {status} Refused\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
