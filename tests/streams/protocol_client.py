"""A plain client of the streaming protocol: what goes over the wire, without an SDK in between."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.streams.conftest import Served, frames_of

ALL_CHANNELS = [
    "values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom",
]  # fmt: skip
Event = dict[str, Any]
_ids = itertools.count(1)


async def command(served: Served, thread: str, method: str, **params: Any) -> dict[str, Any]:
    """The answer to a command, whatever it is."""
    response = await served.http.post(
        f"/threads/{thread}/commands", json={"id": next(_ids), "method": method, "params": params}
    )
    assert response.status_code == 200, response.text
    return dict(response.json())


async def start(served: Served, thread: str, graph: str, given: Any, **params: Any) -> str:
    """A run over the protocol; its id."""
    answer = await command(served, thread, "run.start", assistant_id=graph, input=given, **params)
    assert answer["type"] == "success", answer
    return str(answer["result"]["run_id"])


@asynccontextmanager
async def subscribed(
    served: Served, thread: str, path: str = "stream", **body: Any
) -> AsyncIterator[AsyncIterator[Event]]:
    body.setdefault("channels", ALL_CHANNELS)
    async with served.http.stream("POST", f"/threads/{thread}/{path}", json=body) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _events(frames_of(response))


async def _events(frames: AsyncIterator[dict[str, Any]]) -> AsyncIterator[Event]:
    async for frame in frames:
        event = frame["data"]
        assert (frame["event"], frame["id"]) == (event["method"], str(event["seq"]))
        yield event


async def events_until(
    served: Served, thread: str, enough: Callable[[list[Event]], bool], seconds: float = 20, **body: Any
) -> list[Event]:
    """What a subscription delivers until `enough` is true of it."""
    seen: list[Event] = []
    async with asyncio.timeout(seconds), subscribed(served, thread, **body) as events:
        async for event in events:
            seen.append(event)
            if enough(seen):
                return seen
    raise AssertionError("the stream ended")


def terminals(events: list[Event], count: int = 1) -> bool:
    """Whether so many runs have ended."""
    return sum(is_terminal(event) for event in events) >= count


def is_terminal(event: Event) -> bool:
    return (
        event["method"] == "lifecycle"
        and event["params"]["namespace"] == []
        and event["params"]["data"]["event"] in ("completed", "failed", "interrupted")
    )


def short(events: list[Event]) -> list[str]:
    """`method` or `method:event`, with the depth of the namespace as dots."""
    names = []
    for event in events:
        data = event["params"]["data"]
        kind = data.get("event") if event["method"] in ("lifecycle", "messages", "tools") else None
        names.append("." * len(event["params"]["namespace"]) + event["method"] + (f":{kind}" if kind else ""))
    return names


def data_of(events: list[Event], method: str, namespace: list[str] | None = None) -> list[Any]:
    return [
        event["params"]["data"]
        for event in events
        if event["method"] == method and (namespace is None or event["params"]["namespace"] == namespace)
    ]
