"""The streaming protocol on the wire (streaming contract §1)."""

import asyncio
import itertools
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.runtime.harness import eventually
from tests.streams.conftest import Served, read_run
from tests.streams.protocol_client import (
    Event,
    command,
    data_of,
    events_until,
    short,
    start,
    subscribed,
    terminals,
)


async def test_a_run_makes_its_thread_and_is_told_from_running_to_completed(streaming: Served) -> None:
    thread = str(uuid4())
    await start(
        streaming, thread, "chat", {"messages": [{"type": "human", "content": "one two", "id": "mine"}]}
    )
    events = await events_until(streaming, thread, terminals)
    assert short(events) == [
        "lifecycle:running",
        "checkpoints",
        "checkpoints",
        "values",
        "tasks",
        "messages:message-start",
        "messages:content-block-start",
        *["messages:content-block-delta"] * 4,
        "messages:content-block-finish",
        "messages:message-finish",
        "updates",
        "tasks",
        "checkpoints",
        "values",
        "lifecycle:completed",
    ]
    assert [event["seq"] for event in events] == list(range(events[0]["seq"], events[-1]["seq"] + 1))
    assert len({event["event_id"] for event in events}) == len(events)
    final = data_of(events, "values")[-1]["messages"]
    assert [(message["type"], message["content"]) for message in final] == [
        ("human", "one two"),
        ("ai", "You said: one two"),
    ]
    assert final[0]["id"] == "mine"
    messages = data_of(events, "messages")
    assert "".join(item["delta"]["text"] for item in messages if "delta" in item) == "You said: one two"
    assert messages[0]["id"] == final[1]["id"]
    assert messages[-1]["usage"] == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    assert [event["params"]["node"] for event in events if event["method"] == "updates"] == ["model"]


async def test_a_run_whose_first_attempt_died_at_once_is_told_to_run(streaming: Served) -> None:
    thread = await streaming.thread()
    run = await streaming.insert_run(thread, "chat", {"protocol": True, "input": {"messages": "hi"}})
    async with streaming.database.connection() as connection:
        await connection.execute("UPDATE runs SET attempt = 1, status = 'running' WHERE run_id = %s", (run,))
    await streaming.submit(thread, run)
    names = short(await events_until(streaming, str(thread), terminals, channels=["lifecycle"]))
    assert names == ["lifecycle:running", "lifecycle:completed"]


async def test_a_client_that_continues_after_its_command_misses_nothing(streaming: Served) -> None:
    """Python's SDK subscribes from the number in the answer to `run.start` on, however fast the run was."""
    thread = str(uuid4())
    for turn in range(5):
        answer = await command(
            streaming, thread, "run.start", assistant_id="steps", input={"done": [], "seconds": 0}
        )
        since = answer["meta"]["applied_through_seq"]
        events = await events_until(streaming, thread, terminals, since=since)
        assert short(events)[0] == "lifecycle:running", turn


async def test_tool_calls_grow_and_tools_report(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "tools", {"messages": "compute 6*7"})
    events = await events_until(streaming, thread, terminals)
    messages = data_of(events, "messages")
    pieces = [
        item["delta"]["fields"]["args"]
        for item in messages
        if item.get("delta", {}).get("type") == "block-delta"
    ]
    assert pieces[-1] == '{"expression": "6*7"}'
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(pieces))
    finished = [item["content"] for item in messages if item["event"] == "content-block-finish"]
    assert {"type": "tool_call", "id": "call-1", "name": "compute", "args": {"expression": "6*7"}} in finished
    started, ended = data_of(events, "tools")
    assert started == {
        "event": "tool-started",
        "tool_call_id": "call-1",
        "tool_name": "compute",
        "input": {"expression": "6*7"},
    }
    assert (ended["event"], ended["tool_call_id"], ended["output"]["content"]) == (
        "tool-finished",
        "call-1",
        "42",
    )
    assert not any(item.get("delta", {}).get("type") == "tool-call-delta" for item in messages)
    result = data_of(events, "messages", ["tools:call-1"])
    assert [item["event"] for item in result] == [
        "message-start",
        "content-block-start",
        "content-block-delta",
        "content-block-finish",
        "message-finish",
    ]
    assert (result[0]["role"], result[0]["tool_call_id"]) == ("tool", "call-1")
    assert result[2]["delta"] == {"type": "text-delta", "text": "42"}
    final = data_of(events, "values")[-1]["messages"]
    assert [message["id"] for message in final if message["type"] == "tool"] == [result[0]["id"]]


async def test_children_start_after_and_end_before_their_parents(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "nested", {"messages": "hi"})
    events = await events_until(streaming, thread, terminals, channels=["lifecycle"])
    assert short(events) == [
        "lifecycle:running",
        ".lifecycle:started",
        "..lifecycle:started",
        "..lifecycle:completed",
        ".lifecycle:completed",
        "lifecycle:completed",
    ]
    outer, inner = events[1]["params"]["namespace"], events[2]["params"]["namespace"]
    assert [segment.split(":")[0] for segment in inner] == ["outer", "inner"]
    assert inner[:1] == outer
    assert events[2]["params"]["data"]["graph_name"] == "inner"


@pytest.mark.parametrize(
    ("namespaces", "depth", "expected"),
    [
        (None, None, {0, 1, 2}),
        ([[]], 0, {0}),
        ([[]], 1, {0, 1}),
        ([["outer"]], None, {1, 2}),
        ([["outer"]], 0, {1}),
        ([["outer", "inner"]], 0, {2}),
        ([["other"]], None, set()),
    ],
)
async def test_namespaces_and_depth_choose(
    streaming: Served, namespaces: list[list[str]] | None, depth: int | None, expected: set[int]
) -> None:
    thread = await _finished(streaming, "nested")
    body: dict[str, Any] = {"channels": ["values", "custom:end"]}
    if namespaces is not None:
        body |= {"namespaces": namespaces}
    if depth is not None:
        body |= {"depth": depth}
    everything = await _replayed(streaming, thread, {"channels": ["values"]})
    chosen = await _replayed(streaming, thread, body)
    assert {len(event["params"]["namespace"]) for event in chosen} == expected
    assert chosen == [event for event in everything if len(event["params"]["namespace"]) in expected]


async def test_replays_are_identical_and_since_continues(streaming: Served) -> None:
    thread = await _finished(streaming, "chat")
    first = await _replayed(streaming, thread, {})
    assert await _replayed(streaming, thread, {}) == first
    for place, event in enumerate(first):
        assert await _replayed(streaming, thread, {"since": event["seq"]}) == first[place + 1 :]


async def test_numbers_go_on_over_runs_and_the_stream_stays_open(streaming: Served) -> None:
    thread = str(uuid4())
    reading = asyncio.create_task(events_until(streaming, thread, lambda seen: terminals(seen, 2)))
    await start(streaming, thread, "chat", {"messages": "one"})
    await start(streaming, thread, "chat", {"messages": "two"})
    events = await reading
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))
    assert short(events).count("lifecycle:running") == 2


async def test_an_interrupt_is_requested_and_answered_once(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "asking", {})
    events = await events_until(streaming, thread, terminals, channels=["lifecycle", "input", "values"])
    assert short(events)[-2:] == ["input.requested", "lifecycle:interrupted"]
    assert not any("__interrupt__" in values for values in data_of(events, "values"))
    requested = data_of(events, "input.requested")[0]
    assert requested["payload"] == requested["value"] == {"question": "go on?"}
    wrong = await command(streaming, thread, "input.respond", namespace=[], interrupt_id="zzz", response=1)
    assert wrong["error"] == "no_such_interrupt"
    params = {"namespace": [], "interrupt_id": requested["interrupt_id"], "response": {"go": True}}
    answers = await asyncio.gather(*(command(streaming, thread, "input.respond", **params) for _ in range(5)))
    assert sorted(answer["type"] for answer in answers) == ["error"] * 4 + ["success"]
    assert {answer.get("error") for answer in answers} == {None, "no_such_interrupt"}
    events = await events_until(streaming, thread, lambda seen: terminals(seen, 2))
    assert data_of(events, "values")[-1] == {"answer": {"go": True}}
    assert short(events)[-1] == "lifecycle:completed"


async def test_run_start_on_an_interrupted_thread_answers_it(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "asking", {})
    await events_until(streaming, thread, terminals)
    await start(streaming, thread, "asking", "yes")
    events = await events_until(streaming, thread, lambda seen: terminals(seen, 2))
    assert data_of(events, "values")[-1] == {"answer": "yes"}


async def test_a_failure_is_told_with_its_message(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "failing", {})
    events = await events_until(streaming, thread, terminals, channels=["lifecycle"])
    assert data_of(events, "lifecycle")[-1] == {"event": "failed", "error": "boom"}


async def test_a_cancelled_run_is_told_as_interrupted_children_first(streaming: Served) -> None:
    thread = str(uuid4())
    run = await start(streaming, thread, "nested", {"messages": "hi", "seconds": 20})
    await events_until(
        streaming, thread, lambda seen: "..lifecycle:started" in short(seen), channels=["lifecycle"]
    )
    assert (await streaming.http.post(f"/threads/{thread}/runs/{run}/cancel")).status_code == 202
    events = await events_until(streaming, thread, terminals, channels=["lifecycle"])
    assert short(events)[-3:] == [
        "..lifecycle:interrupted",
        ".lifecycle:interrupted",
        "lifecycle:interrupted",
    ]


async def test_a_run_cancelled_in_the_queue_has_an_end(streaming: Served) -> None:
    thread = str(uuid4())
    first = await start(streaming, thread, "steps", {"seconds": 20})
    second = await start(streaming, thread, "chat", {"messages": "later"})
    for run in (second, first):
        await streaming.http.post(f"/threads/{thread}/runs/{run}/cancel")
    events = await events_until(streaming, thread, lambda seen: terminals(seen, 2), channels=["lifecycle"])
    assert short(events).count("lifecycle:interrupted") == 2


async def test_what_is_rolled_back_is_not_replayed(streaming: Served) -> None:
    thread = str(uuid4())
    run = await start(streaming, thread, "steps", {"seconds": 20})
    await events_until(streaming, thread, lambda seen: "custom" in short(seen))
    await streaming.http.post(f"/threads/{thread}/runs/{run}/cancel?action=rollback")
    await events_until(streaming, thread, terminals)
    assert short(await _replayed(streaming, thread, {})) == ["lifecycle:running", "lifecycle:interrupted"]


async def test_classic_runs_are_seen_over_the_protocol_too(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "chat", "input": {"messages": "hi"}, "stream_mode": ["messages-tuple"]}
    await read_run(streaming, thread, body)
    names = short(await _replayed(streaming, thread, {}))
    assert names[0] == "lifecycle:running"
    assert names[-1] == "lifecycle:completed"
    assert "messages:message-start" in names
    assert "values" in names


async def test_named_custom_events_have_a_channel_of_their_own(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "chunks", {"count": 2})
    events = await events_until(streaming, thread, terminals)
    assert data_of(events, "custom") == [{"payload": {"chunk": 0}}, {"payload": {"chunk": 1}}]
    assert await _replayed(streaming, thread, {"channels": ["custom:other"]}) == []


async def test_state_commands_read_what_is_stored(streaming: Served) -> None:
    thread = await _finished(streaming, "nested")
    state = (await command(streaming, thread, "state.get", namespace=[]))["result"]
    assert state["values"]["messages"][-1]["content"] == "You said: hi"
    assert (await command(streaming, thread, "state.get", namespace=[], keys=["none"]))["result"][
        "values"
    ] == {}
    assert (await command(streaming, thread, "state.get", namespace=["x:1"]))["error"] == "no_such_namespace"
    listed = (await command(streaming, thread, "state.listCheckpoints", limit=2))["result"]["checkpoints"]
    assert [checkpoint["step"] for checkpoint in listed] == [1, 0]
    assert listed[0]["id"] == state["checkpoint"]["id"]
    tree = (await command(streaming, thread, "agent.getTree"))["result"]["tree"]
    assert (tree["status"], tree["graph_name"]) == ("completed", "nested")
    assert tree["children"][0]["children"][0]["graph_name"] == "inner"


async def test_a_fork_goes_on_from_the_past(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "steps", {"done": []})
    await events_until(streaming, thread, terminals)
    listed = (await command(streaming, thread, "state.listCheckpoints"))["result"]["checkpoints"]
    past = next(checkpoint for checkpoint in listed if checkpoint["step"] == 3)
    forked = await command(streaming, thread, "state.fork", checkpoint_id=past["id"])
    assert forked["result"]["thread_id"] == thread
    events = await events_until(streaming, thread, lambda seen: terminals(seen, 2))
    assert data_of(events, "values")[-1]["done"] == [f"step{number}" for number in range(1, 6)]
    unknown = await command(
        streaming, thread, "state.fork", checkpoint_id="1f000000-0000-6000-8000-000000000000"
    )
    assert unknown["error"] == "no_such_checkpoint"


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("zzz", {}, "unknown_command"),
        ("run.start", {}, "invalid_argument"),
        ("run.start", {"assistant_id": "zzz"}, "invalid_argument"),
        ("run.start", {"assistant_id": "chat", "multitaskStrategy": "zzz"}, "invalid_argument"),
        ("input.respond", {}, "invalid_argument"),
        ("input.respond", {"interrupt_id": "x", "response": 1}, "no_such_interrupt"),
        ("input.inject", {"message": {"role": "user", "content": "x"}}, "no_such_run"),
        ("agent.getTree", {}, "no_such_run"),
        ("agent.getTree", {"run_id": "zzz"}, "invalid_argument"),
        ("state.fork", {"checkpoint_id": "x"}, "no_such_checkpoint"),
        ("state.listCheckpoints", {"limit": 0}, "invalid_argument"),
        ("subscription.subscribe", {"channels": ["values"]}, "not_supported"),
    ],
)
async def test_what_a_command_cannot_do_is_said(
    streaming: Served, method: str, params: dict[str, Any], code: str
) -> None:
    answer = await command(streaming, str(uuid4()), method, **params)
    assert (answer["type"], answer["error"]) == ("error", code)
    assert answer["message"]


async def test_broken_envelopes_and_streams_are_refused(streaming: Served) -> None:
    thread = str(uuid4())
    bodies: list[tuple[str, Any, int]] = [
        ("commands", {"method": "run.start"}, 400),
        ("commands", {"id": "one", "method": "run.start"}, 400),
        ("commands", [], 400),
        ("stream", {"channels": []}, 422),
        ("stream", {"channels": ["zzz"]}, 422),
        ("stream", {"channels": ["values"], "since": -1}, 422),
        ("stream/events", {}, 422),
    ]
    for path, body, expected in bodies:
        answer = await streaming.http.post(f"/threads/{thread}/{path}", json=body)
        assert answer.status_code == expected, (path, body, answer.text)
    answer = await streaming.http.post(f"/threads/{thread}/commands", content=b"{")
    assert answer.status_code == 400
    assert (
        await streaming.http.post("/threads/x/commands", json={"id": 1, "method": "x"})
    ).status_code == 422


async def test_strangers_see_and_do_nothing(streaming: Served, own_streaming: Served) -> None:
    thread = await _finished(streaming, "chat")
    foreign = own_streaming
    assert await _replayed(foreign, thread, {}) == []
    answer = await foreign.http.post(
        f"/threads/{thread}/commands",
        json={"id": 1, "method": "run.start", "params": {"assistant_id": "chat", "input": {}}},
    )
    assert answer.status_code == 404
    assert (await command(foreign, thread, "state.get"))["result"] == {"values": {}}
    async with httpx.AsyncClient(base_url=streaming.url, trust_env=False) as nobody:
        assert (
            await nobody.post(f"/threads/{thread}/stream", json={"channels": ["values"]})
        ).status_code == 401


async def test_a_place_that_was_swept_away_is_a_clear_answer(streaming: Served) -> None:
    thread = await _finished(streaming, "chat")
    events = await _replayed(streaming, thread, {})
    middle = events[len(events) // 2]
    async with streaming.database.connection() as connection:
        await connection.execute(
            "DELETE FROM thread_events WHERE thread_id = %s AND seq < %s", (thread, middle["seq"])
        )
    answer = await streaming.http.post(
        f"/threads/{thread}/stream", json={"channels": ["values"], "since": events[0]["seq"]}
    )
    assert answer.status_code == 410
    assert answer.json()["error"] == "resume_gap"
    assert answer.json()["since"] == events[0]["seq"]
    assert answer.json()["min_available_seq"] <= middle["seq"]
    kept = await _replayed(streaming, thread, {})
    assert kept == events[len(events) - len(kept) :]
    run = (await streaming.http.get(f"/threads/{thread}/runs")).json()[0]["run_id"]
    path = f"/threads/{thread}/runs/{run}/stream"
    classic = await streaming.http.get(path, headers={"Last-Event-ID": str(events[0]["seq"])})
    assert "resume_gap" in classic.text


async def _finished(served: Served, graph: str) -> str:
    thread = str(uuid4())
    await start(served, thread, graph, {"messages": "hi"})
    await events_until(served, thread, terminals, channels=["lifecycle"])
    return thread


async def _replayed(served: Served, thread: str, body: dict[str, Any]) -> list[Event]:
    """All that a new subscription delivers of what has happened: up to the thread's last number."""
    newest: list[int] = []

    async def number() -> bool:
        row = await served.rows("SELECT event_seq FROM threads WHERE thread_id = %s", thread)
        newest.append(row[0]["event_seq"] if row else 0)
        return True

    await eventually(number)
    seen: list[Event] = []
    body = {
        "channels": [
            "values",
            "updates",
            "messages",
            "tools",
            "lifecycle",
            "input",
            "checkpoints",
            "tasks",
            "custom",
        ],
        **body,
    }
    try:
        async with asyncio.timeout(0.7), subscribed(served, thread, **body) as events:
            async for event in events:
                seen.append(event)
                if event["seq"] >= newest[-1]:
                    break
    except TimeoutError:
        pass
    return seen


async def test_who_answers_an_interrupt_at_once_is_heard(streaming: Served) -> None:
    for _ in range(10):
        thread = str(uuid4())
        reading = asyncio.create_task(
            events_until(streaming, thread, lambda seen: "input.requested" in short(seen), channels=["input"])
        )
        await start(streaming, thread, "asking", {})
        requested = data_of(await reading, "input.requested")[0]
        answer = await command(
            streaming,
            thread,
            "input.respond",
            namespace=[],
            interrupt_id=requested["interrupt_id"],
            response=1,
        )
        assert answer["type"] == "success", answer
