"""The unmodified JavaScript SDK, in the versions that clients use (streaming contract §0)."""

import asyncio
import json
import shutil
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.streams.conftest import Address, Served
from tests.streams.protocol_client import data_of, events_until, terminals
from tests.streams.proxy import cuttable_way

FOLDER = Path(__file__).parent / "js"
VERSIONS = ("1.11.0", "1.15.0")

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="needs Node"),
    pytest.mark.parametrize("version", VERSIONS),
]


@pytest.fixture(scope="session", autouse=True)
def _packages() -> None:
    """Installed from the lock file, once."""
    if not (FOLDER / "node_modules" / f"sdk-{VERSIONS[-1]}").exists():
        command = ["npm", "ci", "--no-audit", "--no-fund", "--legacy-peer-deps"]
        subprocess.run(command, cwd=FOLDER, check=True, capture_output=True)


async def _seen(
    served: Served | Address, version: str, scenario: str, assistant: str = "chat", thread_id: str = ""
) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        "node", "client.mjs", version, served.url, served.api_key, scenario, assistant, thread_id,
        cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    output, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    return dict(json.loads(output.decode().splitlines()[-1]))


async def test_turns_grow_token_by_token_and_reload_from_history(streaming: Served, version: str) -> None:
    seen = await _seen(streaming, version, "turns")
    first, second = seen["turns"]
    assert [message["text"] for message in second["messages"]] == [
        "one two three",
        "You said: one two three",
        "four five",
        "You said: four five",
    ]
    assert len(first["grown"]) >= 4, first["grown"]
    assert all(later.startswith(earlier) for earlier, later in pairwise(first["grown"]))
    assert (first["completed"], second["completed"]) == (1, 1)
    assert seen["reload"] == second["messages"]
    assert seen["loading"] is False


async def test_tools_are_seen_with_their_output(streaming: Served, version: str) -> None:
    seen = await _seen(streaming, version, "tools", "tools")
    assert [message["type"] for message in seen["messages"]] == ["human", "ai", "tool", "ai"]
    assert seen["messages"][-1]["text"] == "The result is 42"
    [call] = seen["toolCalls"]
    assert call["name"] == "compute"
    assert "6*7" in json.dumps(call["args"])
    assert call["output"] == "42"
    assert [(message["namespace"], message["text"]) for message in seen["streamed"]] == [
        ([], "Let me see. "),
        (["tools:call-1"], "42"),
        ([], "The result is 42"),
    ]


async def test_interrupts_are_asked_and_answered(streaming: Served, version: str) -> None:
    seen = await _seen(streaming, version, "interrupt", "asking")
    assert [asked["value"] for asked in seen["asked"]] == [{"question": "go on?"}]
    assert (seen["values"]["answer"], seen["left"]) == ({"go": True}, 0)


async def test_failures_reach_the_client(streaming: Served, version: str) -> None:
    assert await _seen(streaming, version, "failure", "failing") == {"error": "boom", "loading": False}


async def test_the_lower_handle_yields_tokens(streaming: Served, version: str) -> None:
    seen = await _seen(streaming, version, "threadStream")
    assert seen["messages"][0]["text"] == "You said: one two three"
    assert len(seen["messages"][0]["tokens"]) > 1
    assert seen["final"] == ["one two three", "You said: one two three"]


async def test_the_classic_stream_is_understood(streaming: Served, version: str) -> None:
    events = (await _seen(streaming, version, "classic"))["events"]
    assert events[0]["event"] == "metadata"
    chunks = [event["data"][0]["content"] for event in events if event["event"] == "messages"]
    assert "".join(chunks) == "You said: one two"


async def test_a_cut_connection_loses_nothing_and_repeats_nothing(streaming: Served, version: str) -> None:
    thread = str(uuid4())
    async with cuttable_way(streaming) as way:
        watching = asyncio.create_task(_seen(way.address, version, "reconnect", "chat", thread))
        assert await way.cut_after(thread, 12) > 0
        before = way.opened
        seen = await asyncio.wait_for(watching, 60)
        assert way.opened > before
    assert seen["error"] is None
    assert seen["completed"] == 1
    assert [message["text"] for message in seen["messages"]] == [seen["words"], f"You said: {seen['words']}"]
    record = await events_until(streaming, thread, terminals)
    assert len([item for item in data_of(record, "messages") if "delta" in item]) >= 25
    taken = Counter(event["id"] for event in seen["events"])
    assert set(taken.values()) == {1}
    for method in ("messages", "values", "checkpoints", "lifecycle"):
        recorded = {event["event_id"] for event in record if event["method"] == method}
        assert recorded <= set(taken), method
    assert {event["method"] for event in seen["events"]} >= {"messages", "values", "lifecycle"}


async def test_a_cut_classic_stream_loses_nothing_and_repeats_nothing(
    streaming: Served, version: str
) -> None:
    thread = await streaming.new_thread()
    async with cuttable_way(streaming) as way:
        watching = asyncio.create_task(_seen(way.address, version, "classicReconnect", "chunks", thread))
        assert await way.cut_after(thread, 20) > 0
        before = way.opened
        events = (await asyncio.wait_for(watching, 60))["events"]
        assert way.opened > before
    assert [event["data"]["chunk"] for event in events if event["event"] == "custom"] == list(range(80))
    ids = [int(event["id"]) for event in events]
    assert ids == sorted(set(ids))
    assert events[-1]["event"] == "end"


async def test_two_subagents_have_messages_of_their_own(deep_agent: Address, version: str) -> None:
    seen = await _seen(deep_agent, version, "subagents")
    assert sorted((agent["name"], agent["status"]) for agent in seen["agents"]) == [
        ("math-whiz", "complete"),
        ("researcher", "complete"),
    ]
    assert all(agent["namespace"][0].startswith("tools:") for agent in seen["agents"])
    for messages in seen["said"]:
        assert [message["type"] for message in messages] == ["human", "ai", "tool", "ai"]
        assert messages[2]["text"]
        assert messages[2]["call"]
    first, second = seen["turns"]
    assert (first["completed"], second["completed"]) == (1, 1)
    assert "714" in first["messages"][-1]["text"]
    assert "25" in second["messages"][-1]["text"]
    assert seen["reload"] == second["messages"]
    assert {agent["name"] for agent in seen["reloaded"]} >= {"researcher", "math-whiz"}
