"""The protocol over a WebSocket: commands, answers and events on one connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.streams.conftest import Served


@asynccontextmanager
async def _connected(
    served: Served, thread: str, path: str = "stream", key: str | None = None
) -> AsyncIterator[ClientConnection]:
    url = f"{served.url.replace('http', 'ws', 1)}/threads/{thread}/{path}"
    async with connect(url, additional_headers={"X-Api-Key": key or served.api_key}, proxy=None) as websocket:
        yield websocket


async def _ask(websocket: ClientConnection, method: str, **params: Any) -> dict[str, Any]:
    """The answer to a command; events that come before it are left out."""
    await websocket.send(json.dumps({"id": 7, "method": method, "params": params}))
    async with asyncio.timeout(20):
        while True:
            frame = json.loads(await websocket.recv())
            if frame["type"] != "event":
                return dict(frame)


async def _events_until_end(websocket: ClientConnection) -> list[dict[str, Any]]:
    seen = []
    async with asyncio.timeout(20):
        while True:
            frame = json.loads(await websocket.recv())
            if frame["type"] == "event":
                seen.append(frame)
                data = frame["params"]["data"]
                if frame["method"] == "lifecycle" and data["event"] in ("completed", "interrupted", "failed"):
                    return seen


@pytest.mark.parametrize("path", ["stream", "stream/events"])
async def test_subscribe_start_and_reconnect(streaming: Served, path: str) -> None:
    thread = str(uuid4())
    async with _connected(streaming, thread, path) as websocket:
        subscribed = await _ask(
            websocket, "subscription.subscribe", channels=["lifecycle", "values", "messages"]
        )
        assert subscribed["result"]["subscription_id"]
        started = await _ask(websocket, "run.start", assistant_id="chat", input={"messages": "one"})
        assert started["type"] == "success"
        live = await _events_until_end(websocket)
    assert live[-1]["params"]["data"] == {"event": "completed"}
    async with _connected(streaming, thread, path) as websocket:
        since = live[2]["seq"]
        await _ask(
            websocket, "subscription.reconnect", channels=["lifecycle", "values", "messages"], since=since
        )
        assert await _events_until_end(websocket) == live[3:]


async def test_unsubscribed_means_silent(streaming: Served) -> None:
    thread = str(uuid4())
    async with _connected(streaming, thread) as websocket:
        answer = await _ask(websocket, "subscription.subscribe", channels=["lifecycle"])
        subscription = answer["result"]["subscription_id"]
        assert (await _ask(websocket, "subscription.unsubscribe", subscription_id=subscription))[
            "type"
        ] == "success"
        again = await _ask(websocket, "subscription.unsubscribe", subscription_id=subscription)
        assert again["error"] == "no_such_subscription"
        await _ask(websocket, "subscription.subscribe", channels=["custom:end"])
        await _ask(websocket, "run.start", assistant_id="chat", input={"messages": "one"})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await websocket.recv()


async def test_broken_frames_get_an_answer_and_the_connection_stays(streaming: Served) -> None:
    async with _connected(streaming, str(uuid4())) as websocket:
        for frame in ("{", "[]", '{"id": 1}', '{"id": -1, "method": "x"}'):
            await websocket.send(frame)
            answer = json.loads(await websocket.recv())
            assert (answer["type"], answer["error"]) == ("error", "invalid_argument")
        for channels in ([], ["zzz"]):
            assert (await _ask(websocket, "subscription.subscribe", channels=channels))[
                "error"
            ] == "invalid_argument"
        assert (await _ask(websocket, "zzz"))["error"] == "unknown_command"


@pytest.mark.parametrize(("thread", "key", "code"), [("x", None, 4422), (None, "slw_wrong", 4401)])
async def test_refusals_are_close_codes(
    streaming: Served, thread: str | None, key: str | None, code: int
) -> None:
    async with _connected(streaming, thread or str(uuid4()), key=key) as websocket:
        with pytest.raises(ConnectionClosed) as closed:
            await websocket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code
