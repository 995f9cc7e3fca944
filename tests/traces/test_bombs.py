"""Small bodies that would become huge: refused in bounded memory, and the process serves on."""

import asyncio
import gzip
import zlib
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import zstandard

from tests.traces.own_api import OwnApi
from tests.traces.wire import BOUNDARY, MULTIPART, json_part, multipart, root_run

MB = 1024 * 1024
# The limit of a decompressed body is 100 MB, of which there may be two copies for a moment.
MAX_GROWTH_BYTES = 450 * MB


def zeros(size_mb: int) -> bytes:
    """A gzip body that becomes zeros."""
    block = zlib.compressobj(9, zlib.DEFLATED, -15)
    megabyte = block.compress(bytes(MB)) + block.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"")[:10] + megabyte * size_mb


def zstd_frame(size_mb: int, window: int = 0x50) -> bytes:
    """A zstd frame of zeros: blocks that repeat one byte 128 KiB times, in a window of any size."""
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    return b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + block * (8 * size_mb) + b"\x01\x00\x00"


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


def with_inputs(document: bytes) -> bytes:
    run = root_run()
    name = f"post.{run['id']}"
    return multipart([json_part(name, run), (f"{name}.inputs", "application/json", document)])


BOMBS: dict[str, tuple[str, Callable[[], bytes], int]] = {
    "gzip": ("gzip", lambda: zeros(2_000), 413),
    "gzip in gzip": ("gzip", lambda: gzip.compress(zeros(2_000)), 422),
    "gzip, several times": ("gzip, gzip", lambda: gzip.compress(zeros(2_000)), 415),
    "gzip members": ("gzip", lambda: gzip.compress(bytes(MB)) * 2_000, 400),
    "zstd": ("zstd", lambda: zstd_frame(2_000), 413),
    "zstd in zstd": ("zstd", lambda: zstd(zstd_frame(2_000)), 422),
    "zstd frames": ("zstd", lambda: zstd_frame(1) * 2_000, 413),
    "empty zstd frames": ("zstd", lambda: zstd(b"") * 100_000, 400),
    "a window of 2 TB": ("zstd", lambda: zstd_frame(1, window=0xF8), 400),
    "a window of 1 GB": ("zstd", lambda: zstd_frame(1, window=0xA0), 400),
    "one part over the limit": ("zstd", lambda: zstd(with_inputs(b'"' + b"x" * (101 * MB) + b'"')), 413),
    "empty arrays": ("zstd", lambda: zstd(with_inputs(b"[" + b"[]," * (30 * MB) + b"0]")), 413),
    "numbers": ("zstd", lambda: zstd(with_inputs(b"[" + b"1," * (45 * MB) + b"0]")), 413),
    "empty parts": (
        "zstd",
        lambda: zstd(multipart([(f"post.{root_run()['id']}", "application/json", b"")]) * 400_000),
        422,
    ),
    "parts that do not end": ("zstd", lambda: zstd(f"--{BOUNDARY}\r\n".encode() * (4 * MB)), 422),
    "a header that does not end": (
        "zstd",
        lambda: zstd(f"--{BOUNDARY}\r\nContent-Disposition: ".encode() + b"x" * (90 * MB)),
        422,
    ),
}


@pytest.mark.parametrize("kind", list(BOMBS))
async def test_a_bomb_is_refused_in_bounded_memory(api: OwnApi, kind: str) -> None:
    encoding, make, status = BOMBS[kind]
    body = await asyncio.to_thread(make)
    assert (await api.client.post("/runs/query", json={})).json()["runs"] == []
    api.process.forget_peak()
    before = api.process.peak_bytes()
    answer = await api.client.post(
        "/runs/multipart", content=body, headers={**MULTIPART, "Content-Encoding": encoding}
    )
    assert answer.status_code == status, answer.text
    assert isinstance(answer.json()["error"], str)
    assert api.process.peak_bytes() - before < MAX_GROWTH_BYTES
    assert (await api.client.post("/runs/query", json={})).json()["runs"] == []


async def test_lengths_that_are_not_true_store_nothing_and_hang_nothing(api: OwnApi) -> None:
    run = root_run()
    body = multipart([json_part(f"post.{run['id']}", run)])
    address = urlsplit(str(api.client.base_url))
    head = (
        f"POST /runs/multipart HTTP/1.1\r\nHost: x\r\nX-Api-Key: {api.client.headers['X-Api-Key']}\r\n"
        f"Content-Type: {MULTIPART['Content-Type']}\r\n"
    ).encode()
    chunk = f"{len(body) - 20:x}\r\n".encode() + body[:-20] + b"\r\n"
    for headers, sent in (
        (b"Content-Length: %d" % (len(body) + 100), body),
        (b"Content-Length: %d" % (len(body) - 20), body),
        (b"Content-Length: 0", body),
        (b"Content-Length: 99999999999999999999", body),
        (b"Content-Length: -5", body),
        (b"Content-Length: five", body),
        (b"Transfer-Encoding: chunked", chunk),
        (b"Transfer-Encoding: chunked", b"zz\r\n" + body),
        (b"Transfer-Encoding: chunked", chunk + b"0\r\n\r\n"),
    ):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(head + headers + b"\r\n\r\n" + sent)
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        # Refused, or, where the request never ended, left without an answer.
        assert answer[9:10] in (b"4", b""), (headers, answer[:300])
    assert (await api.client.post("/runs/query", json={})).json()["runs"] == []
