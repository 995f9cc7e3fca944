"""Threads with the unmodified SDK (contract §3.3)."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError
from temporalio.client import Client

from storage.database import Database
from storage.sweeps import sweep_threads
from tests.agent_server.conftest import Deployment
from tests.runtime.harness import eventually
from workflows.messages.sweep import SWEEP_SCHEDULE

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "thread_states", "thread_events", "runs")


async def _rows(database: Database, thread_id: str) -> dict[str, int]:
    """How many rows each table has of a thread."""
    async with database.connection() as connection:
        counts = {}
        for table in TABLES:
            cursor = await connection.execute(
                f"SELECT count(*) AS n FROM {table} WHERE thread_id::text = %s".encode(), (thread_id,)
            )
            row = await cursor.fetchone()
            counts[table] = row["n"] if row else -1
    return counts


async def test_a_thread_is_made_and_read(sdk: LangGraphClient) -> None:
    thread = await sdk.threads.create(metadata={"a": 1, "run_id": "stripped"})
    assert thread["status"] == "idle"
    assert thread["values"] is None
    assert thread["interrupts"] == {}
    assert thread["metadata"] == {"a": 1}
    assert UUID(thread["thread_id"]).version == 7
    assert await sdk.threads.get(thread["thread_id"]) == thread


async def test_a_taken_id_is_a_conflict_unless_told_otherwise(sdk: LangGraphClient) -> None:
    thread_id = str(uuid4())
    made = await sdk.threads.create(thread_id=thread_id, metadata={"a": 1})
    with pytest.raises(ConflictError):
        await sdk.threads.create(thread_id=thread_id)
    again = await sdk.threads.create(thread_id=thread_id, if_exists="do_nothing", metadata={"a": 2})
    assert again == made


async def test_metadata_is_merged(sdk: LangGraphClient, deployment: Deployment) -> None:
    thread = await sdk.threads.create(metadata={"a": {"x": 1}, "b": 1})
    changed = await sdk.threads.update(thread["thread_id"], metadata={"a": {"y": 2}, "c": 3})
    assert changed["metadata"] == {"a": {"y": 2}, "b": 1, "c": 3}
    with pytest.raises(NotFoundError):
        await sdk.threads.update(str(uuid4()), metadata={})
    for number in range(2):
        answer = await deployment.client.patch(
            f"/threads/{thread['thread_id']}", json={"metadata": {f"big{number}": "x" * 40_000}}
        )
    assert answer.status_code == 422
    assert "big1" not in (await sdk.threads.get(thread["thread_id"]))["metadata"]


async def test_a_failed_run_shows_on_the_thread(sdk: LangGraphClient) -> None:
    thread = await sdk.threads.create()
    await sdk.runs.wait(thread["thread_id"], "failing", input={"done": []}, raise_error=False)
    failed = await sdk.threads.get(thread["thread_id"])
    assert failed["status"] == "error"
    assert failed["error"] == {"error": "ValueError", "message": "told to fail"}
    assert failed["values"] == {"done": ["first"]}
    assert failed["metadata"]["graph_id"] == "failing"


async def test_search_by_what_threads_hold(sdk: LangGraphClient, deployment: Deployment) -> None:
    mark = uuid4().hex
    threads = []
    for number in range(3):
        thread = await sdk.threads.create(metadata={"mark": mark, "deep": {"n": number, "also": True}})
        threads.append(thread["thread_id"])
    await sdk.runs.wait(threads[0], "counter", input={"inputs": ["a", "b"]})
    await sdk.runs.wait(threads[1], "asking", input={"question": "why?"})

    async def ids(**filters: Any) -> list[str]:
        found = await sdk.threads.search(**{"metadata": {"mark": mark}, **filters})
        return [row["thread_id"] for row in found]

    assert await ids() == threads[::-1]
    assert await ids(sort_by="created_at", sort_order="asc") == threads
    assert await ids(metadata={"mark": mark, "deep": {"n": 1}}) == [threads[1]]
    assert await ids(values={"count": 2}) == [threads[0]]
    assert await ids(values={"inputs": ["b"]}) == [threads[0]]
    assert await ids(status="interrupted") == [threads[1]]
    assert await ids(ids=[threads[2], str(uuid4())]) == [threads[2]]
    assert await ids(limit=1, offset=1) == [threads[1]]
    assert await sdk.threads.count(metadata={"mark": mark}) == 3
    assert await sdk.threads.count(metadata={"mark": mark}, values={"count": 2}, status="idle") == 1
    answer = await deployment.client.post("/threads/search", json={"metadata": {"mark": mark}, "limit": 2})
    assert answer.headers["X-Pagination-Total"] == "3"
    assert answer.headers["X-Pagination-Next"] == "2"
    [interrupted] = await sdk.threads.search(metadata={"mark": mark}, status="interrupted")
    [[found]] = interrupted["interrupts"].values()
    assert found["value"] == {"question": "why?"}


async def test_search_selects_and_extracts(sdk: LangGraphClient) -> None:
    mark = uuid4().hex
    thread = await sdk.threads.create(metadata={"mark": mark, "a.b": 1, "list": [{"x": 1}]})
    await sdk.runs.wait(
        thread["thread_id"], "echo", input={"messages": [{"role": "user", "content": "hello"}]}
    )
    [row] = await sdk.threads.search(metadata={"mark": mark}, select=["thread_id", "status"])
    assert row == {"thread_id": thread["thread_id"], "status": "idle"}
    [row] = await sdk.threads.search(
        metadata={"mark": mark},
        select=["thread_id"],
        extract={
            "last": "values.messages[-1].content",
            "first": "values.messages[0].content",
            "x": "metadata.list[0].x",
            "none": "values.messages[7].content",
        },
    )
    assert row["extracted"] == {"last": "echo: hello", "first": "hello", "x": 1, "none": None}
    assert "values" not in row


@pytest.mark.parametrize(
    "body",
    [
        {"limit": 0},
        {"limit": 1001},
        {"offset": -1},
        {"status": "asleep"},
        {"ids": ["x"]},
        {"sort_by": "values"},
        {"select": ["password"]},
        {"values": {"a": "\0"}},
        {"metadata": {"a": "\0"}},
        {"values": [1]},
        {"extract": {"a": "thread_id"}},
        {"extract": {"a": "values[*]"}},
        {"extract": {"a": "values.a'; drop table threads"[:9] + "["}},
        {"extract": {str(number): "values.a" for number in range(11)}},
    ],
)
async def test_a_bad_search_is_a_422(deployment: Deployment, body: dict[str, Any]) -> None:
    answer = await deployment.client.post("/threads/search", json=body)
    assert answer.status_code == 422, answer.text
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"metadata": {"a": "\\ud800"}}', b'{"metadata": {"a": NaN}}', b"[" * 2_000, b"\xff"],
)
async def test_a_broken_body_is_a_422(deployment: Deployment, content: bytes) -> None:
    answer = await deployment.client.post(
        "/threads", content=content, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()) == (422, {"detail": "Invalid JSON in request body"})


async def test_lists_inside_values_and_unknown_fields_are_no_problem(deployment: Deployment) -> None:
    body = {"values": {"messages": [{"content": ["a", 1, None]}]}, "unknown": 1}
    answer = await deployment.client.post("/threads/search", json=body)
    assert (answer.status_code, answer.json()) == (200, [])


async def test_deleting_a_thread_leaves_nothing_of_it(
    sdk: LangGraphClient, deployment: Deployment, database: Database
) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(thread_id, "steps", input={"done": []})
    assert all((await _rows(database, thread_id)).values())
    answer = await deployment.client.delete(f"/threads/{thread_id}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert not any((await _rows(database, thread_id)).values())
    with pytest.raises(NotFoundError):
        await sdk.threads.get(thread_id)
    assert (await deployment.client.delete(f"/threads/{thread_id}")).status_code == 404


async def test_deleting_a_busy_thread_stops_its_runs(
    sdk: LangGraphClient, database: Database, temporal_client: Client
) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    await sdk.runs.create(thread_id, "steps", input={"ms": 2_000, "done": []})
    await sdk.runs.create(thread_id, "steps", input={"ms": 2_000, "done": []})

    async def has_begun() -> bool:
        return bool((await _rows(database, thread_id))["checkpoints"])

    await eventually(has_begun)
    await sdk.threads.delete(thread_id)

    async def is_quiet() -> bool:
        described = await temporal_client.get_workflow_handle(f"thread/{thread_id}").query("describe")
        return described["running"] is None and not described["waiting"]

    await eventually(is_quiet, 15)
    assert not any((await _rows(database, thread_id)).values())


async def test_a_copy_has_state_and_history_and_goes_its_own_way(
    sdk: LangGraphClient, deployment: Deployment
) -> None:
    original = (await sdk.threads.create(metadata={"a": 1}))["thread_id"]
    await sdk.runs.wait(original, "counter", input={"inputs": [f"in {original}"]})
    answer = await deployment.client.post(f"/threads/{original}/copy")
    assert answer.status_code == 200
    copy = answer.json()["thread_id"]
    assert copy != original
    thread, source = await sdk.threads.get(copy), await sdk.threads.get(original)
    assert (thread["status"], thread["values"], thread["metadata"]) == (
        "idle",
        source["values"],
        source["metadata"],
    )
    states = await sdk.threads.get_history(copy, limit=100)
    expected = await sdk.threads.get_history(original, limit=100)
    assert [state["values"] for state in states] == [state["values"] for state in expected]
    assert {state["checkpoint"]["thread_id"] for state in states} == {copy}
    assert states[0]["metadata"]["thread_id"] == copy
    await sdk.runs.wait(copy, "counter", input={"inputs": ["second"]})
    assert (await sdk.threads.get_state(copy))["values"]["count"] == 2
    assert (await sdk.threads.get_state(original))["values"]["count"] == 1
    assert (await deployment.client.post(f"/threads/{uuid4()}/copy")).status_code == 404


async def test_an_interrupted_thread_can_be_copied_and_resumed(sdk: LangGraphClient) -> None:
    original = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(original, "asking", input={"question": "why?"})
    await sdk.threads.copy(original)
    [copy] = [
        row
        for row in await sdk.threads.search(values={"question": "why?"}, limit=2)
        if row["thread_id"] != original
    ][:1]
    resumed = await sdk.runs.wait(copy["thread_id"], "asking", command={"resume": "because"})
    assert resumed["answer"] == "because"
    assert (await sdk.threads.get_state(original))["next"] == ["ask"]


async def test_pruning_keeps_the_latest_state_or_nothing(
    sdk: LangGraphClient, database: Database, deployment: Deployment
) -> None:
    kept, gone = [(await sdk.threads.create())["thread_id"] for _ in range(2)]
    for thread_id in (kept, gone):
        await sdk.runs.wait(thread_id, "steps", input={"done": []})
    before = await sdk.threads.get_state(kept)
    unknown = str(uuid4())
    assert await sdk.threads.prune([kept, unknown], strategy="keep_latest") == {"pruned_count": 1}
    assert (await _rows(database, kept))["checkpoints"] == 1
    [after] = await sdk.threads.get_history(kept, limit=100)
    assert after["values"] == before["values"]
    assert after["checkpoint_id"] == before["checkpoint_id"]
    await sdk.runs.wait(kept, "steps", input={"done": []})
    assert len((await sdk.threads.get_state(kept))["values"]["done"]) == 10
    assert await sdk.threads.prune([gone, gone, unknown]) == {"pruned_count": 1}
    assert not any((await _rows(database, gone)).values())
    for wrong in ({}, {"thread_ids": ["x"]}, {"thread_ids": [], "strategy": "all"}):
        assert (await deployment.client.post("/threads/prune", json=wrong)).status_code == 422


async def test_a_busy_thread_is_not_cut_down(sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    run = await sdk.runs.create(thread_id, "steps", input={"ms": 300, "done": []})
    assert await sdk.threads.prune([thread_id], strategy="keep_latest") == {"pruned_count": 0}
    await sdk.runs.join(thread_id, run["run_id"])
    assert len(await sdk.threads.get_history(thread_id, limit=100)) == 7


async def test_storage(sdk: LangGraphClient, deployment: Deployment) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(thread_id, "echo", input={"messages": [{"role": "user", "content": "x" * 2_000}]})
    answer = await deployment.client.get(f"/threads/{thread_id}/storage")
    stored = answer.json()
    assert stored["checkpoints"]["count"] == 3
    messages = stored["channel_values"]["by_channel"]["messages"]
    assert messages["count"] >= 1
    assert messages["bytes"] > 0
    assert stored["total_bytes"] == (
        stored["checkpoints"]["bytes"] + stored["channel_values"]["bytes"] + stored["pending_writes"]["bytes"]
    )
    assert (await deployment.client.get(f"/threads/{uuid4()}/storage")).status_code == 404


async def test_ttl_is_shown_where_asked_for(sdk: LangGraphClient, deployment: Deployment) -> None:
    thread = await sdk.threads.create(ttl=60)
    assert "ttl" not in thread
    shown = await sdk.threads.get(thread["thread_id"], include=["ttl"])
    assert (shown["ttl"]["strategy"], shown["ttl"]["ttl_minutes"]) == ("delete", 60)
    await sdk.threads.update(thread["thread_id"], metadata={}, ttl={"ttl": 5, "strategy": "keep_latest"})
    shown = await sdk.threads.get(thread["thread_id"], include=["ttl"])
    assert (shown["ttl"]["strategy"], shown["ttl"]["ttl_minutes"]) == ("keep_latest", 5)
    for wrong in (60, {"ttl": 0}, {"ttl": -1}, {"ttl": 5, "strategy": "archive"}):
        assert (await deployment.client.post("/threads", json={"ttl": wrong})).status_code == 422
    answer = await deployment.client.get(f"/threads/{thread['thread_id']}", params={"include": "secrets"})
    assert answer.status_code == 422


async def test_expired_threads_are_swept_but_never_busy_ones(
    sdk: LangGraphClient, database: Database
) -> None:
    expired = [(await sdk.threads.create(ttl=60))["thread_id"] for _ in range(2)]
    kept = (await sdk.threads.create(ttl={"ttl": 60, "strategy": "keep_latest"}))["thread_id"]
    busy, alive = (
        (await sdk.threads.create(ttl=60))["thread_id"],
        (await sdk.threads.create(ttl=60))["thread_id"],
    )
    for thread_id in (expired[0], kept):
        await sdk.runs.wait(thread_id, "steps", input={"done": []})
    run = await sdk.runs.create(busy, "steps", input={"ms": 600, "done": []})
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE threads SET expires_at = now() - interval '1 second' WHERE thread_id = ANY(%s::uuid[])",
            ([*expired, kept, busy],),
        )
    while (await sweep_threads(database, batch=2))[1]:
        pass
    for thread_id in expired:
        with pytest.raises(NotFoundError):
            await sdk.threads.get(thread_id)
    assert len(await sdk.threads.get_history(kept, limit=100)) == 1
    assert (await sdk.threads.get(alive))["thread_id"] == alive
    assert (await sdk.threads.get(busy))["status"] == "busy"
    await sdk.runs.join(busy, run["run_id"])


async def test_the_sweep_is_a_schedule_that_an_operator_can_trigger(
    sdk: LangGraphClient, database: Database, temporal_client: Client
) -> None:
    thread_id = (await sdk.threads.create(ttl=60))["thread_id"]
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE threads SET expires_at = now() WHERE thread_id = %s::uuid", (thread_id,)
        )
    await temporal_client.get_schedule_handle(SWEEP_SCHEDULE).trigger()

    async def is_gone() -> bool:
        try:
            await sdk.threads.get(thread_id)
        except NotFoundError:
            return True
        return False

    await eventually(is_gone)


async def test_ids_that_are_no_uuids_are_refused(deployment: Deployment) -> None:
    for path in ("", "/state", "/history", "/storage"):
        answer = await deployment.client.get(f"/threads/x{path}")
        assert answer.status_code == 422
        assert answer.json()["detail"].endswith("Invalid thread ID: must be a UUID")


async def test_another_workspace_sees_no_thread(sdk: LangGraphClient, stranger: LangGraphClient) -> None:
    thread = await sdk.threads.create(metadata={"graph_id": "echo"})
    thread_id = thread["thread_id"]
    for call in (
        stranger.threads.get(thread_id),
        stranger.threads.update(thread_id, metadata={"stolen": True}),
        stranger.threads.delete(thread_id),
        stranger.threads.copy(thread_id),
        stranger.threads.get_state(thread_id),
        stranger.threads.get_state(thread_id, checkpoint={"checkpoint_ns": ""}),
        stranger.threads.update_state(thread_id, {"a": 1}),
        stranger.threads.get_history(thread_id),
    ):
        with pytest.raises(NotFoundError):
            await call
    assert await stranger.threads.prune([thread_id]) == {"pruned_count": 0}
    assert await stranger.threads.search(ids=[thread_id]) == []
    with pytest.raises(ConflictError):
        await stranger.threads.create(thread_id=thread_id, if_exists="do_nothing")
    assert await sdk.threads.get(thread_id) == thread


async def test_changes_at_once_do_not_lose_one_another(sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    await asyncio.gather(
        *(sdk.threads.update(thread_id, metadata={str(number): number}) for number in range(10))
    )
    assert (await sdk.threads.get(thread_id))["metadata"] == {str(number): number for number in range(10)}
