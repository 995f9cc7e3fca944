"""Readers that do not read: they cost the server a page each, however much waits for them."""

from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

from tests.stacks import Stack
from tests.streams.conftest import Served, frames_of
from tests.streams.protocol_client import start

COUNT, TEXT_BYTES = 80, 1024 * 1024
READERS = 4
# Without a bound each of the readers below would cost the whole run, 80 MiB, at least once.
MOST_GROWTH_KB = 200 * 1024


async def test_memory_is_bounded_while_readers_do_not_read(streaming: Served, stack: Stack) -> None:
    thread = str(uuid4())
    # What repeats itself is small in the database and large on the way.
    given = {"count": COUNT, "every_seconds": 0, "text_bytes": TEXT_BYTES}
    run = await start(streaming, thread, "chunks", given)
    await streaming.ended(run, 60)
    before = _memory_kb(stack.pid("api"))
    paths = [
        ("GET", f"/threads/{thread}/runs/{run}/stream?stream_mode=custom", None),
        ("POST", f"/threads/{thread}/stream", {"channels": ["custom"]}),
    ]
    async with AsyncExitStack() as opened:
        waiting = []
        for method, path, body in paths * READERS:
            response = await opened.enter_async_context(streaming.http.stream(method, path, json=body))
            frames = frames_of(response)
            # The first event is here: the server has read its page, and waits for the client.
            first = await anext(frame async for frame in frames if frame["event"] == "custom")
            waiting.append((first, frames))
        growth = _memory_kb(stack.pid("api")) - before
        assert growth < MOST_GROWTH_KB, f"{growth / 1024:.0f} MiB"
        first, frames = waiting[0]
        assert first["data"]["chunk"] == 0
        rest = [frame["data"]["chunk"] async for frame in frames if frame["event"] == "custom"]
        assert rest == list(range(1, COUNT))


def _memory_kb(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))
