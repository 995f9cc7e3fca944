"""Messages that enter a run which is under way (streaming contract §1.4, `input.inject`)."""

import signal
from typing import Any
from uuid import uuid4

from tests.runtime.harness import eventually
from tests.streams.conftest import Served
from tests.streams.protocol_client import Event, command, data_of, events_until, is_terminal, start, terminals


async def test_a_message_enters_the_run_between_two_of_its_steps(streaming: Served) -> None:
    thread = str(uuid4())
    run = await start(streaming, thread, "listening", {"messages": "first", "seconds": 0.8})
    await events_until(streaming, thread, lambda seen: _began(seen, "one"))
    queued = await start(streaming, thread, "listening", {"messages": "later"})
    second = await _inject(streaming, thread, "second")
    unwanted = await _inject(streaming, thread, "unwanted")
    third = await _inject(streaming, thread, "third")
    assert (await streaming.http.post(f"/threads/{thread}/runs/{unwanted}/cancel")).status_code == 202
    events = await events_until(streaming, thread, lambda seen: terminals(seen, 3))
    ends = [place for place, event in enumerate(events) if is_terminal(event)]
    ended = events[: ends[1] + 1]
    assert _said(ended) == [
        "first",
        "one heard first",
        "second",
        "third",
        "two heard first, second, third",
        "three heard first, second, third",
    ]
    assert [event["params"]["data"]["event"] for event in events if is_terminal(event)] == [
        "interrupted",
        "completed",
        "completed",
    ]
    rows = await streaming.rows(
        "SELECT run_id, status, taken_by FROM runs WHERE thread_id = %s ORDER BY position", thread
    )
    assert [
        (str(row["run_id"]), row["status"], row["taken_by"] and str(row["taken_by"])) for row in rows
    ] == [
        (run, "success", None),
        (queued, "success", None),
        (second, "success", run),
        (unwanted, "interrupted", None),
        (third, "success", run),
    ]
    state = (await streaming.http.get(f"/threads/{thread}/state")).json()
    assert [message["content"] for message in state["values"]["messages"]][6] == "later"


async def test_a_message_waits_for_the_results_of_tools(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "tools", {"messages": "compute 6*7", "seconds": 0.2})
    await events_until(streaming, thread, lambda seen: bool(data_of(seen, "messages")))
    await _inject(streaming, thread, "and now?")
    events = await events_until(streaming, thread, terminals)
    assert _said(events) == ["compute 6*7", "Let me see. ", "42", "and now?", "You said: and now?"]


async def test_a_message_that_comes_too_late_is_a_run_of_its_own(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "chat", {"messages": "one", "seconds": 0.1})
    await _inject(streaming, thread, "two")
    events = await events_until(streaming, thread, lambda seen: terminals(seen, 2))
    assert _said(events) == ["one", "You said: one", "two", "You said: two"]


async def test_a_message_leaves_an_open_question_open(streaming: Served) -> None:
    thread = str(uuid4())
    await start(streaming, thread, "approving", {"messages": "go", "seconds": 0.5})
    await events_until(streaming, thread, lambda seen: _began(seen, "approve"))
    await _inject(streaming, thread, "one more thing")
    events = await events_until(streaming, thread, lambda seen: terminals(seen, 2))
    asked = data_of(events, "input.requested")
    assert [item["value"] for item in asked] == ["may I?"] * 2
    assert len({item["interrupt_id"] for item in asked}) == 1
    await _inject(streaming, thread, "and another")
    await events_until(streaming, thread, lambda seen: terminals(seen, 3))
    answer = {"namespace": [], "interrupt_id": asked[0]["interrupt_id"], "response": "yes"}
    assert (await command(streaming, thread, "input.respond", **answer))["type"] == "success"
    events = await events_until(streaming, thread, lambda seen: terminals(seen, 4))
    assert _said(events) == ["go", "one more thing", "and another", "Approved: yes"]


async def test_a_message_is_in_the_state_once_whatever_dies(own_streaming: Served) -> None:
    deployment, thread = own_streaming, str(uuid4())
    worker = await deployment.serve()
    run = await start(deployment, thread, "listening", {"messages": "first", "seconds": 1.0})
    await events_until(deployment, thread, lambda seen: _began(seen, "one"))
    second = await _inject(deployment, thread, "second")
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker = deployment.start_worker()
    # Taken, and the step that sees it has not ended: the message is in the checkpoint's writes, nowhere else.
    await eventually(lambda: _is_taken(deployment, second), 60)
    third = await _inject(deployment, thread, "third")
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    deployment.start_worker()
    events = await events_until(deployment, thread, terminals, seconds=60)
    assert _said(events) == [
        "first",
        "one heard first",
        "second",
        "two heard first, second",
        "third",
        "three heard first, second, third",
    ]
    attempts = await deployment.rows("SELECT attempt FROM runs WHERE run_id = %s", run)
    assert [row["attempt"] for row in attempts] == [3]
    assert await _is_taken(deployment, third)


async def _inject(served: Served, thread: str, text: str) -> str:
    """The message's own run."""
    message = {"role": "user", "content": text}
    answer = await command(served, thread, "input.inject", namespace=[], message=message)
    assert answer["type"] == "success", answer
    return str(answer["result"]["run_id"])


async def _is_taken(served: Served, run: str) -> bool:
    return bool(await served.rows("SELECT FROM runs WHERE run_id = %s AND taken_by IS NOT NULL", run))


def _began(events: list[Event], name: str) -> bool:
    return {"began": name} in [item["payload"] for item in data_of(events, "custom")]


def _said(events: list[Event]) -> list[Any]:
    return [message["content"] for message in data_of(events, "values", [])[-1]["messages"]]
