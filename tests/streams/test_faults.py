"""Streams through the death of those who serve them."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import psycopg
import pytest
from psycopg_pool import PoolTimeout
from temporalio.client import Client

from storage.database import Database
from tests.runtime.harness import eventually
from tests.stacks import Stack
from tests.streams.conftest import Frame, Served, frames_of, served
from tests.streams.protocol_client import (
    ALL_CHANNELS,
    Event,
    data_of,
    events_until,
    is_terminal,
    short,
    start,
    terminals,
)

STEPS = [f"step{number}" for number in range(1, 6)]


async def test_a_protocol_stream_goes_on_when_its_worker_is_killed(own_streaming: Served) -> None:
    deployment, thread = own_streaming, str(uuid4())
    worker = await deployment.serve()
    await start(deployment, thread, "steps", {"done": [], "seconds": 0.4})
    seen: list[Event] = []

    def killed_then_ended(events: list[Event]) -> bool:
        nonlocal seen
        seen = events
        if worker.poll() is None and {"began": "step3"} in [
            item["payload"] for item in data_of(events, "custom")
        ]:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            deployment.start_worker()
        return terminals(events)

    live = await events_until(deployment, thread, killed_then_ended, seconds=60)
    assert data_of(live, "values")[-1]["done"] == STEPS
    assert short(live).count("lifecycle:running") == 1
    assert [event["params"]["data"]["event"] for event in live if is_terminal(event)] == ["completed"]
    seqs = [event["seq"] for event in live]
    assert seqs == sorted(set(seqs))
    assert await events_until(deployment, thread, terminals) == live


async def test_a_message_that_was_cut_off_is_ended_and_begun_again(own_streaming: Served) -> None:
    deployment, thread = own_streaming, str(uuid4())
    worker = await deployment.serve()
    await start(deployment, thread, "nested", {"messages": "a b c d", "seconds": 0.3})
    started: list[bool] = []

    def killed_then_ended(events: list[Event]) -> bool:
        texts = [item for item in data_of(events, "messages") if item["event"] == "content-block-delta"]
        if not started and len(texts) >= 2:
            started.append(True)
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            deployment.start_worker()
        return terminals(events)

    live = await events_until(deployment, thread, killed_then_ended, seconds=60)
    messages = data_of(live, "messages")
    begun = [item["id"] for item in messages if item["event"] == "message-start"]
    ended = [(item["id"], item["event"]) for item in messages if item["event"] in ("message-finish", "error")]
    assert len(begun) == 2
    assert ended == [(begun[0], "error"), (begun[1], "message-finish")]
    text = "".join(item["delta"]["text"] for item in messages if item["id"] == begun[1] and "delta" in item)
    assert text == "You said: a b c d"
    lifecycle = [name for name in short(live) if "lifecycle" in name]
    assert lifecycle.count("..lifecycle:started") == lifecycle.count("..lifecycle:completed") == 1


async def test_a_classic_stream_goes_on_when_its_worker_is_killed(own_streaming: Served) -> None:
    deployment = own_streaming
    worker = await deployment.serve()
    thread = await deployment.new_thread()
    body = {
        "assistant_id": "steps",
        "input": {"done": [], "seconds": 0.4},
        "stream_mode": ["updates", "custom"],
    }
    frames: list[Frame] = []
    path = f"/threads/{thread}/runs/stream"
    async with deployment.http.stream("POST", path, json=body) as response:
        async for frame in frames_of(response):
            frames.append(frame)
            if worker.poll() is None and frame["data"] == {"began": "step3"}:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
                deployment.start_worker()
    updates = [name for frame in frames if frame["event"] == "updates" for name in frame["data"]]
    assert updates == STEPS
    attempts = [frame["data"]["attempt"] for frame in frames if frame["event"] == "metadata"]
    assert attempts == [1, 2]
    ids = [int(frame["id"]) for frame in frames]
    assert ids == sorted(set(ids))
    assert frames[-1]["data"] == {"status": "success"}


@pytest.fixture
async def killable(killable_stack: Stack) -> AsyncIterator[tuple[Stack, Served]]:
    """A deployment on a stack whose servers may be killed."""
    async with Database(killable_stack.database_url, 5) as database:
        client = await Client.connect(killable_stack.temporal_address)
        async with served(killable_stack, database, client) as deployment:
            await deployment.serve()
            yield killable_stack, deployment


async def test_readers_lose_nothing_when_the_api_is_killed(killable: tuple[Stack, Served]) -> None:
    stack, deployment = killable
    thread = await deployment.new_thread()
    body = {"assistant_id": "chunks", "input": {"count": 300, "every_seconds": 0.02}, "stream_mode": "custom"}
    run = (await deployment.http.post(f"/threads/{thread}/runs", json=body)).json()["run_id"]
    classic = asyncio.create_task(_read_classic(deployment, thread, run))
    protocol = asyncio.create_task(_read_protocol(deployment, thread))
    left = asyncio.create_task(_leave(deployment))

    async def under_way() -> bool:
        watched = await deployment.rows("SELECT run_id FROM run_watchers")
        return bool(watched) and bool(
            await deployment.rows("SELECT 1 FROM thread_events WHERE run_id = %s AND seq > 50", run)
        )

    await eventually(under_way)
    killed = stack.kill("api")
    # As if its lease had passed already.
    [watcher] = await deployment.rows(
        "UPDATE run_watchers SET expires_at = now() - interval '1 s' RETURNING run_id"
    )
    await asyncio.to_thread(stack.wait_restarted, "api", killed)
    frames = await asyncio.wait_for(classic, 60)
    assert [frame["data"]["chunk"] for frame in frames if frame["event"] == "custom"] == list(range(300))
    events = await asyncio.wait_for(protocol, 60)
    assert [item["payload"]["chunk"] for item in data_of(events, "custom")] == list(range(300))
    # The client that wanted to take its run with it did, although nobody was left to say so.
    await left
    assert (await deployment.ended(watcher["run_id"], 60))["status"] == "interrupted"
    assert not await deployment.rows("SELECT FROM run_watchers")


async def test_a_stream_goes_on_when_postgresql_and_temporal_are_killed(
    killable: tuple[Stack, Served],
) -> None:
    stack, deployment = killable
    thread = str(uuid4())
    run = await start(deployment, thread, "steps", {"done": [], "seconds": 5.0})
    classic = asyncio.create_task(_read_classic(deployment, thread, run))
    protocol = asyncio.create_task(_read_protocol(deployment, thread))
    for step, server in (("step2", "postgres"), ("step4", "temporal")):
        await eventually(lambda step=step: _has_begun(deployment, run, step), 90)
        killed = stack.kill(server)
        await asyncio.to_thread(stack.wait_restarted, server, killed)
    events = await asyncio.wait_for(protocol, 120)
    frames = await asyncio.wait_for(classic, 120)
    assert [name for frame in frames if frame["event"] == "updates" for name in frame["data"]] == STEPS
    assert [item["node"] for item in data_of(events, "updates")] == STEPS
    assert data_of(events, "values")[-1]["done"] == STEPS
    assert short(events).count("lifecycle:running") == 1
    assert [event["params"]["data"]["event"] for event in events if is_terminal(event)] == ["completed"]
    for ids in ([int(frame["id"]) for frame in frames], [event["seq"] for event in events]):
        assert ids == sorted(set(ids))
    record = await events_until(deployment, thread, terminals)
    assert record == events


async def _leave(deployment: Served) -> None:
    """A client that takes its run with it; until its connection breaks."""
    body = {
        "assistant_id": "steps",
        "input": {"seconds": 120},
        "if_not_exists": "create",
        "on_disconnect": "cancel",
    }
    with contextlib.suppress(httpx.TransportError):
        async with deployment.http.stream("POST", f"/threads/{uuid4()}/runs/stream", json=body) as response:
            async for _ in frames_of(response):
                continue


async def _has_begun(deployment: Served, run: str, step: str) -> bool:
    """False while PostgreSQL is away, too."""
    with contextlib.suppress(psycopg.OperationalError, PoolTimeout):
        query = "SELECT FROM thread_events WHERE run_id = %s AND event = 'custom' AND data ->> 'began' = %s"
        return bool(await deployment.rows(query, run, step))
    return False


async def _read_classic(deployment: Served, thread: str, run: str) -> list[Frame]:
    """As clients do: connect again with the id that was seen last."""
    frames: list[Frame] = []
    while not frames or frames[-1]["event"] != "end":
        headers = {"Last-Event-ID": frames[-1]["id"]} if frames else {}
        try:
            path = f"/threads/{thread}/runs/{run}/stream"
            async with deployment.http.stream("GET", path, headers=headers) as response:
                if response.status_code == 200:
                    async for frame in frames_of(response):
                        frames.append(frame)
        except httpx.TransportError:
            await asyncio.sleep(0.1)
    return frames


async def _read_protocol(deployment: Served, thread: str) -> list[Event]:
    """As clients do: connect again without a number, and leave out the events that were seen."""
    seen: dict[str, Event] = {}
    while not terminals(list(seen.values())):
        try:
            body = {"channels": ALL_CHANNELS}
            async with deployment.http.stream("POST", f"/threads/{thread}/stream", json=body) as response:
                async for frame in frames_of(response):
                    seen.setdefault(frame["data"]["event_id"], frame["data"])
                    if is_terminal(frame["data"]):
                        break
        except (httpx.TransportError, KeyError):
            await asyncio.sleep(0.1)
    return list(seen.values())
