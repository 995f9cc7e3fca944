"""The unmodified Python SDK: classic streams and both transports of the protocol."""

import asyncio
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.runtime.harness import eventually
from tests.streams.conftest import Served
from tests.streams.proxy import cuttable_way

TRANSPORTS = pytest.mark.parametrize("transport", ["sse", "websocket"])


async def test_the_classic_stream_is_understood(streaming: Served) -> None:
    thread = await streaming.sdk.threads.create()
    parts = [
        part
        async for part in streaming.sdk.runs.stream(
            thread["thread_id"],
            "chat",
            input={"messages": "one two"},
            stream_mode=["messages-tuple", "values"],
        )
    ]
    assert parts[0].event == "metadata"
    assert (
        "".join(part.data[0]["content"] for part in parts if part.event == "messages") == "You said: one two"
    )
    assert [part for part in parts if part.event == "values"][-1].data["messages"][-1]["type"] == "ai"


async def test_a_cut_classic_stream_loses_nothing_and_repeats_nothing(streaming: Served) -> None:
    thread = await streaming.new_thread()
    parts: list[Any] = []

    async def watch(url: str) -> None:
        async with get_client(url=url, api_key=streaming.api_key) as sdk:
            given = {"count": 80, "every_seconds": 0.04}
            async for part in sdk.runs.stream(thread, "chunks", input=given, stream_mode="custom"):
                parts.append(part)

    async with cuttable_way(streaming) as way:
        watching = asyncio.create_task(watch(way.address.url))
        assert await way.cut_after(thread, 20) > 0
        before = way.opened
        await asyncio.wait_for(watching, 60)
        assert way.opened > before
    assert [part.data["chunk"] for part in parts if part.event == "custom"] == list(range(80))
    ids = [int(part.id) for part in parts]
    assert ids == sorted(set(ids))
    assert parts[-1].event == "end"


async def test_join_stream_reads_a_run_that_has_ended(streaming: Served) -> None:
    thread = await streaming.sdk.threads.create()
    run = await streaming.sdk.runs.create(thread["thread_id"], "chat", input={"messages": "hi"})
    await streaming.sdk.runs.join(thread["thread_id"], run["run_id"])
    parts = [part async for part in streaming.sdk.runs.join_stream(thread["thread_id"], run["run_id"])]
    assert [parts[0].event, parts[-1].event] == ["metadata", "end"]


async def test_a_thread_can_be_joined(streaming: Served) -> None:
    thread = await streaming.sdk.threads.create()
    events: list[str] = []

    async def watch() -> None:
        async for part in await streaming.sdk.threads.join_stream(thread["thread_id"], last_event_id="-"):
            events.append(part.event)
            if part.event == "end":
                return

    watching = asyncio.create_task(watch())
    await streaming.sdk.runs.wait(thread["thread_id"], "chat", input={"messages": "hi"})
    await asyncio.wait_for(watching, 20)
    assert events[0] == "metadata"


@TRANSPORTS
async def test_messages_values_and_output(streaming: Served, transport: Any) -> None:
    async with streaming.sdk.threads.stream(
        assistant_id="chat", headers=_key(streaming), transport=transport
    ) as thread:
        await thread.run.start(input={"messages": [{"type": "human", "content": "one two"}], "seconds": 0.02})
        async with asyncio.timeout(20):
            # Tokens arrive while the messages are read on: each message has a reader of its own.
            readers = [asyncio.create_task(_tokens(message)) async for message in thread.messages]
            [tokens] = [await reader for reader in readers]
            output = await thread.output
    assert "".join(tokens) == "You said: one two"
    assert len(tokens) > 1
    assert [message["content"] for message in output["messages"]] == ["one two", "You said: one two"]


@TRANSPORTS
async def test_tool_calls_have_outputs(streaming: Served, transport: Any) -> None:
    async with streaming.sdk.threads.stream(
        assistant_id="tools", headers=_key(streaming), transport=transport
    ) as thread:
        await thread.run.start(input={"messages": [{"type": "human", "content": "compute 6*7"}]})
        async with asyncio.timeout(20):
            calls = [call async for call in thread.tool_calls]
            assert [call.name for call in calls] == ["compute"]
            assert "42" in str(await calls[0].output)


@TRANSPORTS
async def test_interrupts_are_answered(streaming: Served, transport: Any) -> None:
    async with streaming.sdk.threads.stream(
        assistant_id="asking", headers=_key(streaming), transport=transport
    ) as thread:
        await thread.run.start(input={})
        async with asyncio.timeout(20):
            await eventually(lambda: _true(thread.interrupts))
            assert thread.interrupts[0]["value"] == {"question": "go on?"}
            await thread.run.respond("yes")

            async def idle() -> bool:
                return bool((await streaming.sdk.threads.get(thread.thread_id))["status"] == "idle")

            await eventually(idle)
    assert (await streaming.sdk.threads.get_state(thread.thread_id))["values"] == {"answer": "yes"}


@TRANSPORTS
async def test_nested_graphs_are_followed(streaming: Served, transport: Any) -> None:
    async with streaming.sdk.threads.stream(
        assistant_id="nested", headers=_key(streaming), transport=transport
    ) as thread:
        await thread.run.start(input={"messages": [{"type": "human", "content": "hi"}], "seconds": 0.05})
        async with asyncio.timeout(20):
            async for outer in thread.subgraphs:
                assert outer.path[0].split(":")[0] == "outer"
                break


async def _tokens(message: Any) -> list[str]:
    return [token async for token in message.text]


async def _true(value: Any) -> bool:
    return bool(value)


def _key(served: Served) -> dict[str, str]:
    """The SDK's WebSocket takes no key from its client."""
    return {"x-api-key": served.api_key}
