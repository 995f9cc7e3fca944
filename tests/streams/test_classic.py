"""Classic streams (agent server contract §4)."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from langsmith import Client

from tests.runtime.harness import eventually
from tests.stacks import Stack
from tests.streams.conftest import Frame, Served, frames_of, read_run


def names_of(frames: list[Frame]) -> list[str]:
    return [frame["event"] for frame in frames]


async def test_metadata_comes_first_and_end_last(streaming: Served) -> None:
    thread = await streaming.new_thread()
    frames = await read_run(streaming, thread, {"assistant_id": "steps", "input": {"done": []}})
    assert names_of(frames) == ["metadata", *["values"] * 6, "end"]
    assert frames[0]["data"]["attempt"] == 1
    assert frames[-1]["data"] == {"status": "success"}
    assert frames[-2]["data"]["done"] == [f"step{number}" for number in range(1, 6)]
    ids = [int(frame["id"]) for frame in frames]
    assert ids == sorted(set(ids))


async def test_the_answer_names_where_to_find_the_stream_again(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "chat", "input": {"messages": "hi"}}
    async with streaming.http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as response:
        frames = [frame async for frame in frames_of(response)]
        run = f"/threads/{thread}/runs/{frames[0]['data']['run_id']}"
        assert response.headers["Location"] == f"{run}/stream"
        assert response.headers["Content-Location"] == run
        assert response.headers["Cache-Control"].startswith("no-store")
        assert response.headers["X-Accel-Buffering"] == "no"


@pytest.mark.parametrize("mode", ["updates", "custom", "tasks", "checkpoints", "debug", "events"])
async def test_each_mode_has_its_events_and_no_others(streaming: Served, mode: str) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "steps", "input": {"done": []}, "stream_mode": mode}
    frames = await read_run(streaming, thread, body)
    assert set(names_of(frames)) == {"metadata", mode, "end"}
    data = [frame["data"] for frame in frames if frame["event"] == mode]
    if mode == "updates":
        assert data[0] == {"step1": {"done": ["step1"]}}
    if mode == "custom":
        assert data == [{"began": f"step{number}"} for number in range(1, 6)]
    if mode == "tasks":
        assert [("result" in item, item["name"]) for item in data[:2]] == [(False, "step1"), (True, "step1")]
    if mode == "checkpoints":
        assert [item["metadata"]["step"] for item in data] == [-1, 0, 1, 2, 3, 4, 5]
    if mode == "debug":
        assert {item["type"] for item in data} == {"checkpoint", "task", "task_result"}
    if mode == "events":
        assert any(item["event"] == "on_chain_start" for item in data)


async def test_several_modes_come_in_the_order_of_happening(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "steps", "input": {"done": []}, "stream_mode": ["values", "updates", "custom"]}
    names = names_of(await read_run(streaming, thread, body))
    assert names[:5] == ["metadata", "values", "custom", "updates", "values"]


async def test_chat_models_stream_token_by_token(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "chat", "input": {"messages": "one two"}, "stream_mode": ["messages-tuple"]}
    frames = await read_run(streaming, thread, body)
    chunks = [frame["data"] for frame in frames if frame["event"] == "messages"]
    assert [chunk["content"] for chunk, _ in chunks] == ["You ", "said: ", "one ", "two", ""]
    assert len({chunk["id"] for chunk, _ in chunks}) == 1
    assert {metadata["langgraph_node"] for _, metadata in chunks} == {"model"}


async def test_the_old_mode_sends_each_message_so_far(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "chat", "input": {"messages": "one"}, "stream_mode": "messages"}
    frames = await read_run(streaming, thread, body)
    assert names_of(frames)[1:3] == ["messages/metadata", "messages/partial"]
    partial = [frame["data"][0]["content"] for frame in frames if frame["event"] == "messages/partial"]
    assert partial == ["You ", "You said: ", "You said: one", "You said: one"]
    [announced] = [frame["data"] for frame in frames if frame["event"] == "messages/metadata"]
    assert list(announced) == [frames[2]["data"][0]["id"]]


async def test_nested_graphs_are_shown_on_request_only(streaming: Served) -> None:
    body: dict[str, Any] = {
        "assistant_id": "nested",
        "input": {"messages": "hi"},
        "stream_mode": ["updates", "messages-tuple"],
    }
    plain = await read_run(streaming, await streaming.new_thread(), body)
    assert set(names_of(plain)) == {"metadata", "updates", "end"}
    full = await read_run(streaming, await streaming.new_thread(), {**body, "stream_subgraphs": True})
    suffixes = {name.partition("|")[2] for name in names_of(full) if name.startswith("messages|")}
    [suffix] = suffixes
    assert [segment.split(":")[0] for segment in suffix.split("|")] == ["outer", "inner"]


async def test_a_run_ends_with_links_to_rate_it(streaming: Served, stack: Stack) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "steps", "input": {"done": []}, "feedback_keys": ["helpful", "tone"]}
    frames = await read_run(streaming, thread, body)
    assert names_of(frames)[-2:] == ["feedback", "end"]
    links = frames[-2]["data"]
    assert list(links) == ["helpful", "tone"]
    assert await _join(streaming, thread, frames[0]["data"]["run_id"]) == frames
    async with httpx.AsyncClient(trust_env=False) as stranger:
        for score in (0, 1):
            assert (await stranger.post(links["helpful"], json={"score": score})).status_code == 200
        assert (await stranger.post(links["helpful"], json={"score": "much"})).status_code == 422
        assert (await stranger.post(links["helpful"][:-4] + "AAAA", json={"score": 1})).status_code == 404
        token = links["helpful"].rsplit("/", 1)[1]
        assert (await stranger.get(f"{stack.api_url}/api/v1/attachments/{token}")).status_code == 404
    run = frames[0]["data"]["run_id"]
    headers = {"X-Api-Key": streaming.api_key}
    async with httpx.AsyncClient(base_url=stack.api_url, headers=headers, trust_env=False) as owner:
        [rated] = (await owner.get("/api/v1/feedback", params={"run": run})).json()
        assert (rated["key"], rated["score"]) == ("helpful", 1)
        client = Client(f"{stack.api_url}/api/v1", api_key="of nobody")
        await asyncio.to_thread(client.create_feedback_from_token, links["helpful"], score=0.5)
        [rated] = (await owner.get("/api/v1/feedback", params={"run": run})).json()
    assert (rated["key"], rated["score"]) == ("helpful", 0.5)


async def test_a_failure_is_an_error_event_and_then_the_end(streaming: Served) -> None:
    frames = await read_run(streaming, await streaming.new_thread(), {"assistant_id": "failing", "input": {}})
    assert names_of(frames)[-2:] == ["error", "end"]
    assert frames[-2]["data"] == {"error": "UnluckyError", "message": "boom"}
    assert frames[-1]["data"] == {"status": "error"}


async def test_the_recursion_limit_ends_a_stream(streaming: Served) -> None:
    body = {"assistant_id": "endless", "input": {}, "config": {"recursion_limit": 5}}
    frames = await read_run(streaming, await streaming.new_thread(), body)
    assert frames[-2]["data"]["error"] == "GraphRecursionError"


async def test_interrupts_are_in_values_and_updates(streaming: Served) -> None:
    body = {"assistant_id": "asking", "input": {}, "stream_mode": ["values", "updates"]}
    frames = await read_run(streaming, await streaming.new_thread(), body)
    shown = [frame["data"]["__interrupt__"] for frame in frames if "__interrupt__" in frame["data"]]
    assert [interrupts[0]["value"] for interrupts in shown] == [{"question": "go on?"}] * 2


async def test_a_stream_is_the_same_whenever_and_from_wherever_it_is_read(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {
        "assistant_id": "chat",
        "input": {"messages": "a b c"},
        "stream_mode": ["messages-tuple", "values"],
    }
    live = await read_run(streaming, thread, body)
    run_id = live[0]["data"]["run_id"]
    assert await _join(streaming, thread, run_id) == live
    assert await _join(streaming, thread, run_id, {"Last-Event-ID": "-1"}) == live
    for place, frame in enumerate(live):
        assert await _join(streaming, thread, run_id, {"Last-Event-ID": frame["id"]}) == live[place + 1 :]


async def test_a_reader_of_old_messages_continues_with_whole_ones(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "chat", "input": {"messages": "a b c"}, "stream_mode": "messages"}
    live = await read_run(streaming, thread, body)
    run_id = live[0]["data"]["run_id"]
    assert await _join(streaming, thread, run_id, {"Last-Event-ID": live[3]["id"]}) == live[4:]


async def test_join_can_choose_modes(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "steps", "input": {"done": []}, "stream_mode": ["values", "custom"]}
    run_id = (await read_run(streaming, thread, body))[0]["data"]["run_id"]
    for query in ({"stream_mode": "custom"}, {"stream_mode": json.dumps(["custom"])}):
        assert set(names_of(await _join(streaming, thread, run_id, params=query))) == {
            "metadata",
            "custom",
            "end",
        }


async def test_two_readers_see_a_running_run_from_its_beginning(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "steps", "input": {"done": [], "seconds": 0.2}, "stream_mode": "custom"}
    run = (await streaming.http.post(f"/threads/{thread}/runs", json=body)).json()
    one = asyncio.create_task(_join(streaming, thread, run["run_id"]))

    async def begun() -> bool:
        return bool((await streaming.thread_row(thread))["event_seq"] >= 3)

    await eventually(begun)
    assert await _join(streaming, thread, run["run_id"]) == await one


async def test_a_cancelled_run_ends_its_stream(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "steps", "input": {"seconds": 20}, "stream_mode": "custom"}
    async with streaming.http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as response:
        frames = []
        async for frame in frames_of(response):
            frames.append(frame)
            if frame["event"] == "custom":
                run = frames[0]["data"]["run_id"]
                assert (await streaming.http.post(f"/threads/{thread}/runs/{run}/cancel")).status_code == 202
    assert names_of(frames) == ["metadata", "custom", "end"]
    assert frames[-1]["data"] == {"status": "interrupted"}


@pytest.mark.parametrize("way", ["body", "query"])
async def test_a_client_that_goes_may_take_its_run_with_it(streaming: Served, way: str) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "steps", "input": {"seconds": 20}, "stream_mode": "custom"}
    run = (await streaming.http.post(f"/threads/{thread}/runs", json=body)).json() if way == "query" else {}
    path, params = f"/threads/{thread}/runs/stream", {}
    if way == "query":
        path, params = f"/threads/{thread}/runs/{run['run_id']}/stream", {"cancel_on_disconnect": "true"}
    method, json_body = ("GET", None) if way == "query" else ("POST", {**body, "on_disconnect": "cancel"})
    async with streaming.http.stream(method, path, json=json_body, params=params) as response:
        async for frame in frames_of(response):
            if frame["event"] == "custom":
                break

    async def interrupted() -> bool:
        runs = (await streaming.http.get(f"/threads/{thread}/runs")).json()
        return bool(runs[0]["status"] == "interrupted")

    await eventually(interrupted)


async def test_a_client_that_goes_leaves_its_run_alone(streaming: Served) -> None:
    thread = await streaming.new_thread()
    body = {"assistant_id": "steps", "input": {"done": [], "seconds": 0.2}, "stream_mode": "custom"}
    async with streaming.http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as response:
        async for frame in frames_of(response):
            if frame["event"] == "custom":
                break

    async def succeeded() -> bool:
        return bool((await streaming.http.get(f"/threads/{thread}/runs")).json()[0]["status"] == "success")

    await eventually(succeeded)


async def test_stateless_runs_stream_to_their_end(streaming: Served) -> None:
    body = {"assistant_id": "chat", "input": {"messages": "hi"}, "stream_mode": ["messages-tuple", "values"]}
    async with streaming.http.stream("POST", "/runs/stream", json=body) as response:
        frames = [frame async for frame in frames_of(response)]
        assert response.headers["Location"].endswith("/stream")
        again = response.headers["Content-Location"] + "/stream"
    # Who lost the connection at the very end can still read it; by the run's id alone, too.
    for path in (again, response.headers["Location"]):
        async with streaming.http.stream("GET", path) as replay:
            assert [frame async for frame in frames_of(replay)] == frames
    assert names_of(frames)[0] == "metadata"
    assert names_of(frames)[-1] == "end"
    assert frames[-2]["data"]["messages"][-1]["content"] == "You said: hi"


async def test_a_threads_stream_shows_all_its_runs(streaming: Served) -> None:
    thread = await streaming.new_thread()
    seen: list[Frame] = []
    async with streaming.http.stream("GET", f"/threads/{thread}/stream") as response:

        async def read() -> None:
            async for frame in frames_of(response):
                seen.append(frame)
                if names_of(seen).count("end") == 2:
                    return

        reading = asyncio.create_task(read())
        for text in ("one", "two"):
            await read_run(streaming, thread, {"assistant_id": "chat", "input": {"messages": text}})
        await asyncio.wait_for(reading, 20)
    assert names_of(seen).count("metadata") == 2
    ids = [int(frame["id"]) for frame in seen]
    assert ids == sorted(set(ids))
    replay: list[Frame] = []
    headers = {"Last-Event-ID": "-"}
    async with streaming.http.stream("GET", f"/threads/{thread}/stream", headers=headers) as response:
        async for frame in frames_of(response):
            replay.append(frame)
            if names_of(replay).count("end") == 2:
                break
    assert replay == seen


async def test_unknown_and_foreign_ids_and_bad_values_are_refused(
    streaming: Served, own_streaming: Served
) -> None:
    thread = await streaming.new_thread()
    missing = "01900000-0000-7000-8000-000000000000"
    answers = [
        (await streaming.http.get(f"/threads/{thread}/runs/{missing}/stream"), 404),
        (await streaming.http.get(f"/threads/{missing}/stream"), 404),
        (await streaming.http.get(f"/runs/{missing}/stream"), 404),
        (await streaming.http.get("/runs/x/stream"), 422),
        (await streaming.http.get("/threads/x/stream"), 422),
        (await streaming.http.get(f"/threads/{thread}/stream?stream_modes=zzz"), 422),
        (await streaming.http.get(f"/threads/{thread}/stream", headers={"Last-Event-ID": "zz"}), 422),
        (await streaming.http.post(f"/threads/{thread}/runs/stream", json={"assistant_id": "zzz"}), 422),
        (await streaming.http.post(f"/threads/{missing}/runs/stream", json={"assistant_id": "chat"}), 404),
        (
            await streaming.http.post(
                f"/threads/{thread}/runs/stream", json={"assistant_id": "chat", "stream_mode": "lifecycle"}
            ),
            422,
        ),
    ]
    assert [answer.status_code for answer, _ in answers] == [expected for _, expected in answers]
    run = (await streaming.http.post("/runs", json={"assistant_id": "steps", "input": {}})).json()["run_id"]
    assert (await own_streaming.http.get(f"/runs/{run}/stream")).status_code == 404
    async with httpx.AsyncClient(base_url=streaming.url, trust_env=False) as stranger:
        assert (await stranger.get(f"/threads/{thread}/stream")).status_code == 401
        assert (await stranger.get(f"/runs/{run}/stream")).status_code == 401


async def _join(
    served: Served,
    thread: str,
    run_id: str,
    headers: dict[str, str] | None = None,
    params: dict[str, str] | None = None,
) -> list[Frame]:
    path = f"/threads/{thread}/runs/{run_id}/stream"
    async with served.http.stream("GET", path, headers=headers, params=params) as response:
        assert response.status_code == 200, await response.aread()
        return [frame async for frame in frames_of(response)]
