"""Runs on a thread, through the unmodified Python SDK (agent server contract §3.4)."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.runtime.harness import eventually
from tests.served import Served

STEPS = ["one", "two", "three", "four", "five"]
SLOW = {"done": [], "ms": 700}


def say(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def texts(values: Any) -> list[str]:
    return [message["content"] for message in values["messages"] if message["type"] == "human"]


async def running(sdk: LangGraphClient, thread_id: str, run_id: str) -> None:
    """Wait until the run has begun and written its first step."""

    async def check() -> bool:
        run = await sdk.runs.get(thread_id, run_id)
        state = await sdk.threads.get_state(thread_id)
        return run["status"] == "running" and bool(state["values"])

    await eventually(check)


async def ended(sdk: LangGraphClient, thread_id: str, run_id: str) -> str:
    async def check() -> str | None:
        status = (await sdk.runs.get(thread_id, run_id))["status"]
        return None if status in ("pending", "running") else status

    return await eventually(check)


async def test_created_run_is_pending_and_ends_in_success(sdk: LangGraphClient, thread_id: str) -> None:
    run = await sdk.runs.create(thread_id, "chat", input=say("hi"), metadata={"mine": 1})
    assert run["status"] == "pending"
    assert run["metadata"]["mine"] == 1
    values = await sdk.runs.join(thread_id, run["run_id"])
    assert [message["content"] for message in values["messages"]] == ["hi", "you said hi"]
    stored = await sdk.runs.get(thread_id, run["run_id"])
    assert (stored["status"], stored["multitask_strategy"]) == ("success", "enqueue")
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["values"]) == ("idle", values)


async def test_run_names_the_project_of_its_trace(
    sdk: LangGraphClient, served: Served, thread_id: str
) -> None:
    run: Any = await sdk.runs.create(thread_id, "chat", input={"messages": []})
    read: Any = await sdk.runs.get(thread_id, run["run_id"])
    listed: Any = await sdk.runs.list(thread_id, select=["langsmith_session_name"])
    stateless: Any = await sdk.runs.create(None, "chat", input={"messages": []})
    named = [found["langsmith_session_name"] for found in (run, read, *listed, stateless)]
    assert named == [served.name] * 4


async def test_wait_and_create_name_where_the_run_is(http: httpx.AsyncClient, thread_id: str) -> None:
    body = {"assistant_id": "chat", "input": say("hi")}
    created = await http.post(f"/threads/{thread_id}/runs", json=body)
    run = f"/threads/{thread_id}/runs/{created.json()['run_id']}"
    assert created.headers["content-location"] == run
    waited = await http.post(f"/threads/{thread_id}/runs/wait", json=body)
    assert waited.headers["location"] == waited.headers["content-location"] + "/join"
    assert texts(waited.json()) == ["hi", "hi"]


async def test_three_runs_in_a_row_execute_in_order_of_receipt(sdk: LangGraphClient, thread_id: str) -> None:
    runs = [
        await sdk.runs.create(thread_id, "chat", input=say(text, ms=50), multitask_strategy="enqueue")
        for text in ("a", "b", "c")
    ]
    assert (await sdk.threads.get(thread_id))["status"] == "busy"
    await sdk.runs.join(thread_id, runs[-1]["run_id"])
    state = await sdk.threads.get_state(thread_id)
    assert texts(state["values"]) == ["a", "b", "c"]
    listed = await sdk.runs.list(thread_id)
    assert [run["run_id"] for run in listed] == [run["run_id"] for run in reversed(runs)]


async def test_failing_run_answers_its_error_and_the_next_one_works(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    failed = await sdk.runs.wait(thread_id, "failing", input={"done": []}, raise_error=False)
    assert failed == {"__error__": {"error": "ValueError", "message": "told to fail"}}
    thread = await sdk.threads.get(thread_id)
    assert thread["status"] == "error"
    state = await sdk.threads.get_state(thread_id)
    assert state["next"] == ["fail"]
    assert "told to fail" in state["tasks"][0]["error"]
    run = (await sdk.runs.list(thread_id))[0]
    assert run["status"] == "error"
    await sdk.runs.wait(thread_id, "steps", input={"done": []})
    thread = (await http.get(f"/threads/{thread_id}")).json()
    assert (thread["status"], thread["error"]) == ("idle", None)


async def test_interrupt_of_a_graph_waits_for_an_answer(sdk: LangGraphClient, thread_id: str) -> None:
    values: Any = await sdk.runs.wait(thread_id, "asking", input={"done": ["before"]})
    assert values["__interrupt__"][0]["value"] == {"question": "go on?"}
    thread = await sdk.threads.get(thread_id)
    assert thread["status"] == "interrupted"
    (interrupts,) = thread["interrupts"].values()
    assert interrupts[0]["id"] == values["__interrupt__"][0]["id"]
    assert (await sdk.runs.list(thread_id))[0]["status"] == "success"
    answered: Any = await sdk.runs.wait(thread_id, "asking", command={"resume": "yes"})
    assert answered["done"] == ["before", "answered yes"]
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


async def test_interrupt_before_a_node_and_go_on_without_input(sdk: LangGraphClient, thread_id: str) -> None:
    await sdk.runs.wait(thread_id, "steps", input={"done": []}, interrupt_before=["three"])
    state = await sdk.threads.get_state(thread_id)
    assert (state["values"]["done"], state["next"]) == (["one", "two"], ["three"])
    assert (await sdk.threads.get(thread_id))["status"] == "interrupted"
    values: Any = await sdk.runs.wait(thread_id, "steps", input=None)
    assert values["done"] == STEPS


async def test_reject_lets_exactly_one_of_five_pass(http: httpx.AsyncClient, thread_id: str) -> None:
    body = {"assistant_id": "steps", "input": SLOW, "multitask_strategy": "reject"}
    answers = await asyncio.gather(*(http.post(f"/threads/{thread_id}/runs", json=body) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409]
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert "already running" in refused.json()["detail"]


async def test_interrupting_run_keeps_what_the_first_one_committed(
    sdk: LangGraphClient, thread_id: str
) -> None:
    first = await sdk.runs.create(thread_id, "steps", input=SLOW)
    await running(sdk, thread_id, first["run_id"])
    values: Any = await sdk.runs.wait(
        thread_id, "steps", input={"done": ["second"], "ms": 0}, multitask_strategy="interrupt"
    )
    assert (await sdk.runs.get(thread_id, first["run_id"]))["status"] == "interrupted"
    kept = values["done"][: values["done"].index("second")]
    assert kept == STEPS[: len(kept)]
    assert values["done"][len(kept) :] == ["second", *STEPS]


async def test_rolling_back_run_leaves_nothing_of_the_first_one(sdk: LangGraphClient, thread_id: str) -> None:
    await sdk.runs.wait(thread_id, "steps", input={"done": ["zero"]})
    first = await sdk.runs.create(thread_id, "steps", input=SLOW)
    await running(sdk, thread_id, first["run_id"])
    values: Any = await sdk.runs.wait(
        thread_id, "steps", input={"done": ["third"], "ms": 0}, multitask_strategy="rollback"
    )
    assert values["done"] == ["zero", *STEPS, "third", *STEPS]
    with pytest.raises(NotFoundError):
        await sdk.runs.get(thread_id, first["run_id"])
    history = await sdk.threads.get_history(thread_id, limit=100)
    assert first["run_id"] not in {(state["metadata"] or {}).get("run_id") for state in history}


async def test_cancel_interrupts_a_running_run(sdk: LangGraphClient, thread_id: str) -> None:
    run = await sdk.runs.create(thread_id, "steps", input=SLOW)
    await running(sdk, thread_id, run["run_id"])
    await sdk.runs.cancel(thread_id, run["run_id"], wait=True)
    assert (await sdk.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
    thread = await sdk.threads.get(thread_id)
    assert thread["status"] == "interrupted"
    assert (await sdk.threads.get_state(thread_id))["next"]
    with pytest.raises(NotFoundError):
        await sdk.runs.cancel(thread_id, run["run_id"])


async def test_cancel_with_rollback_removes_the_run(sdk: LangGraphClient, thread_id: str) -> None:
    run = await sdk.runs.create(thread_id, "steps", input=SLOW)
    await running(sdk, thread_id, run["run_id"])
    await sdk.runs.cancel(thread_id, run["run_id"], wait=True, action="rollback")
    with pytest.raises(NotFoundError):
        await sdk.runs.get(thread_id, run["run_id"])
    thread = await sdk.threads.get(thread_id)
    assert thread["status"] == "idle"
    assert not (await sdk.threads.get_state(thread_id))["values"]


async def test_cancelled_waiting_run_never_starts(sdk: LangGraphClient, thread_id: str) -> None:
    first = await sdk.runs.create(thread_id, "steps", input={"done": [], "ms": 400})
    second = await sdk.runs.create(thread_id, "steps", input={"done": ["second"]})
    await sdk.runs.cancel(thread_id, second["run_id"])
    assert await ended(sdk, thread_id, second["run_id"]) == "interrupted"
    assert (await sdk.runs.get(thread_id, first["run_id"]))["status"] in ("pending", "running")
    values: Any = await sdk.runs.join(thread_id, first["run_id"])
    assert values["done"] == STEPS
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


async def test_many_runs_are_cancelled_at_once(sdk: LangGraphClient, thread_id: str) -> None:
    runs = [await sdk.runs.create(thread_id, "steps", input=SLOW) for _ in range(3)]
    await sdk.runs.cancel_many(thread_id=thread_id, run_ids=[run["run_id"] for run in runs])
    for run in runs:
        assert await ended(sdk, thread_id, run["run_id"]) == "interrupted"


async def test_delayed_run_waits_and_others_overtake_it(sdk: LangGraphClient, thread_id: str) -> None:
    later = await sdk.runs.create(thread_id, "chat", input=say("later"), after_seconds=1)
    await sdk.runs.wait(thread_id, "chat", input=say("now"))
    assert (await sdk.threads.get(thread_id))["status"] == "busy"
    values = await sdk.runs.join(thread_id, later["run_id"])
    assert texts(values) == ["now", "later"]


async def test_deleted_running_run_leaves_the_thread_usable(sdk: LangGraphClient, thread_id: str) -> None:
    run = await sdk.runs.create(thread_id, "steps", input=SLOW)
    await running(sdk, thread_id, run["run_id"])
    await sdk.runs.delete(thread_id, run["run_id"])
    with pytest.raises(NotFoundError):
        await sdk.runs.delete(thread_id, run["run_id"])
    values: Any = await sdk.runs.wait(thread_id, "steps", input={"done": ["next"], "ms": 0})
    assert values["done"][-6:] == ["next", *STEPS]
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


async def test_runs_are_paged_selected_and_filtered(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    for text in ("a", "b", "c"):
        await sdk.runs.wait(thread_id, "chat", input=say(text))
    page = await http.get(f"/threads/{thread_id}/runs?limit=2&select=run_id&select=status")
    assert [set(run) for run in page.json()] == [{"run_id", "status"}] * 2
    assert (page.headers["x-pagination-next"], page.headers["x-pagination-total"]) == ("2", "3")
    assert (await sdk.runs.list(thread_id, status="error")) == []
    assert len(await sdk.runs.list(thread_id, status="success", offset=2)) == 1


async def test_missing_thread_is_made_when_the_run_says_so(sdk: LangGraphClient) -> None:
    thread_id = str(uuid4())
    with pytest.raises(NotFoundError):
        await sdk.runs.create(thread_id, "chat", input=say("hi"))
    values = await sdk.runs.wait(thread_id, "chat", input=say("hi"), if_not_exists="create")
    assert texts(values) == ["hi"]


@pytest.mark.parametrize(
    "given", [{"config": {"configurable": {"tone": "kind"}}}, {"context": {"tone": "kind"}}]
)
async def test_configuration_reaches_the_graph(
    sdk: LangGraphClient, thread_id: str, given: dict[str, Any]
) -> None:
    values: Any = await sdk.runs.wait(thread_id, "configured", input={"done": []}, **given)
    assert values["done"] == ["kind"]


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
async def test_durability_decides_how_many_checkpoints_are_kept(
    sdk: LangGraphClient, thread_id: str, durability: Any
) -> None:
    await sdk.runs.wait(thread_id, "steps", input={"done": []}, durability=durability)
    history = await sdk.threads.get_history(thread_id, limit=100)
    assert len(history) == (1 if durability == "exit" else 7)


async def test_run_from_an_older_checkpoint_forks_the_thread(sdk: LangGraphClient, thread_id: str) -> None:
    await sdk.runs.wait(thread_id, "steps", input={"done": []})
    history = await sdk.threads.get_history(thread_id, limit=100)
    after_two = next(state for state in history if state["values"]["done"] == ["one", "two"])
    values: Any = await sdk.runs.wait(
        thread_id, "steps", input=None, checkpoint_id=after_two["checkpoint"]["checkpoint_id"]
    )
    assert values["done"] == STEPS
    longer = await sdk.threads.get_history(thread_id, limit=100)
    assert len(longer) > len(history)


async def test_stateless_runs_leave_nothing_behind(sdk: LangGraphClient) -> None:
    values = await sdk.runs.wait(None, "chat", input=say("hi"))
    assert texts(values) == ["hi"]
    run = await sdk.runs.create(None, "chat", input=say("hi", ms=100))
    await sdk.threads.get(run["thread_id"])

    async def gone() -> bool:
        try:
            await sdk.threads.get(run["thread_id"])
        except NotFoundError:
            return True
        return False

    await eventually(gone)
    kept = await sdk.runs.create(None, "chat", input=say("hi"), on_completion="keep")
    assert await ended(sdk, kept["thread_id"], kept["run_id"]) == "success"


async def test_stateless_run_is_cancelled_on_its_lane(sdk: LangGraphClient, served: Served) -> None:
    run = await sdk.runs.create(None, "steps", input=SLOW, on_completion="keep")
    await running(sdk, run["thread_id"], run["run_id"])
    await sdk.runs.cancel(run["thread_id"], run["run_id"], wait=True)
    assert (await sdk.runs.get(run["thread_id"], run["run_id"]))["status"] == "interrupted"


async def test_batch_is_all_or_nothing(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    payload = {"assistant_id": "chat", "input": say("hi")}
    runs = await sdk.runs.create_batch([payload, payload, payload])  # type: ignore[list-item]
    assert len({run["run_id"] for run in runs}) == 3
    answer = await http.post("/runs/batch", json=[payload, {"assistant_id": "no such graph"}])
    assert answer.status_code == 422
    assert "no such graph" in answer.json()["detail"]


async def test_resume_needs_a_thread(http: httpx.AsyncClient) -> None:
    answer = await http.post("/runs", json={"assistant_id": "asking", "command": {"resume": 1}})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "You must provide a thread_id when resuming.",
    )


async def test_reject_says_conflict_to_the_sdk(sdk: LangGraphClient, thread_id: str) -> None:
    await sdk.runs.create(thread_id, "steps", input=SLOW)
    with pytest.raises(ConflictError):
        await sdk.runs.create(thread_id, "chat", input=say("hi"), multitask_strategy="reject")


@pytest.mark.parametrize(("asked", "status"), [("cancel", "interrupted"), ("continue", "success")])
async def test_run_goes_on_or_ends_when_the_waiting_client_goes(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str, asked: str, status: str
) -> None:
    body = {"assistant_id": "steps", "input": {"done": [], "ms": 300}, "on_disconnect": asked}
    async with http.stream("POST", f"/threads/{thread_id}/runs/wait", json=body) as answer:
        run_id = answer.headers["content-location"].rpartition("/")[2]
    assert await ended(sdk, thread_id, run_id) == status
