"""The second generation of the query API, as the Python SDK's generated clients call it."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from langsmith import Client
from langsmith._exceptions import APIStatusError

from tests.conftest import Workspace
from tests.traces.wire import root_run

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*deprecated.*"),
]
USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "total_cost": 0.5}


def child_of(run: dict[str, Any], **fields: Any) -> dict[str, Any]:
    child = root_run(session_name=run["session_name"], **fields)
    order = f"{run['dotted_order']}.{child['dotted_order']}"
    return {**child, "trace_id": run["trace_id"], "parent_run_id": run["id"], "dotted_order": order}


@pytest.fixture
async def runs(workspace: Workspace) -> list[dict[str, Any]]:
    """Three turns of thread t-1, the second of which failed, a run without a thread, and a model call in the first."""
    turns = [
        root_run(
            session_name="v2", name=f"turn {n}", outputs={"n": n}, extra={"metadata": {"thread_id": "t-1"}}
        )
        for n in range(3)
    ]
    turns[1]["error"] = "boom"
    model = child_of(turns[0], name="model", run_type="llm", extra={"metadata": {"usage_metadata": USAGE}})
    single = root_run(session_name="v2", name="single", tags=["alone"])
    made = [*turns, model, single]
    assert (await workspace.client.post("/runs/batch", json={"post": made})).status_code == 202
    return made


@pytest.fixture
async def project(workspace: Workspace, runs: list[dict[str, Any]]) -> str:
    answer = await workspace.client.get("/sessions", params={"name": "v2"})
    return str(answer.json()[0]["id"])


async def test_runs_are_queried_and_read_with_the_selected_fields(
    sdk: Client, runs: list[dict[str, Any]], project: str
) -> None:
    selects: list[Any] = [
        "ID",
        "NAME",
        "RUN_TYPE",
        "STATUS",
        "TOTAL_TOKENS",
        "TOTAL_COST",
        "OUTPUTS",
        "METADATA",
    ]
    found = [run async for run in sdk.runs.query(project_ids=[project], selects=selects, page_size=2)]
    assert [run.name for run in found] == ["single", "model", "turn 2", "turn 1", "turn 0"]
    by_name = {run.name: run for run in found}
    assert (by_name["model"].run_type, by_name["turn 1"].status) == ("LLM", "ERROR")
    assert (by_name["model"].total_tokens, by_name["turn 0"].total_tokens) == (15, 0)
    assert by_name["turn 2"].outputs == {"n": 2}
    assert by_name["turn 2"].metadata == {"thread_id": "t-1"}
    assert by_name["turn 2"].tags is None
    sums = sdk.runs.query(
        project_ids=[project], filter='eq(name, "turn 0")', selects=selects, include_subtree_usage=True
    )
    assert [(run.total_tokens, run.total_cost) async for run in sums] == [(15, 0.5)]
    models = sdk.runs.query(project_ids=[project], run_type="LLM")
    assert [run.id async for run in models] == [runs[3]["id"]]
    old = sdk.runs.query(project_ids=[project], max_start_time=datetime.now(UTC) - timedelta(hours=1))
    assert [run async for run in old] == []
    one = await sdk.runs.retrieve(
        runs[1]["id"], project_id=project, selects=["ERROR", "THREAD_ID", "LATENCY_SECONDS", "SHARE_URL"]
    )
    assert (one.error, one.thread_id, one.latency_seconds, one.share_url) == ("boom", "t-1", 0, None)
    streamed = sdk.runs.streaming.query_v2_items(project_ids=[project], selects=["NAME"], page_size=2)
    assert [run.name async for run in streamed] == [run.name for run in found]


async def test_traces_carry_sums_of_their_tree(sdk: Client, runs: list[dict[str, Any]], project: str) -> None:
    found = sdk.traces.query(
        project_id=project, selects=["NAME", "TOTAL_TOKENS"], tree_filter='eq(run_type, "llm")'
    )
    traces = [trace async for trace in found]
    assert [(t.root_run.name, t.trace_aggregates.total_tokens) for t in traces] == [("turn 0", 15)]  # type: ignore
    tree = await sdk.traces.list_runs(runs[0]["id"], project_id=project, selects=["NAME", "PARENT_RUN_IDS"])
    assert [run.name for run in tree.items or []] == ["turn 0", "model"]
    assert (tree.items or [])[1].parent_run_ids == [runs[0]["id"]]


async def test_threads_are_summed_up_over_their_turns(
    sdk: Client, workspace: Workspace, runs: list[dict[str, Any]], project: str
) -> None:
    threads = [thread async for thread in sdk.threads.query(project_id=project)]
    assert [(thread.thread_id, thread.count, thread.num_errored_turns) for thread in threads] == [
        ("t-1", 3, 1)
    ]
    thread = threads[0]
    assert (thread.first_trace_id, thread.last_trace_id) == (runs[0]["id"], runs[2]["id"])
    assert (thread.last_outputs, thread.last_error, thread.total_tokens) == ('{"n":2}', "boom", 15)
    assert [t async for t in sdk.threads.query(project_id=project, filter='has(tags, "alone")')] == []
    assert [t.count async for t in sdk.threads.query(project_id=project, filter='eq(status, "error")')] == [3]
    turns = sdk.threads.list_traces(
        "t-1", project_id=project, selects=["NAME", "TURN_NUMBER", "LATENCY"], page_size=2
    )
    assert [(t.name, t.turn_number, t.latency) async for t in turns] == [
        (f"turn {n}", n + 1, 0) for n in range(3)
    ]
    stats = await sdk.threads.stats(
        "t-1", session_id=project, selects=["TURNS", "TOTAL_TOKENS", "LATENCY_P50", "LAST_END_TIME"]
    )
    assert (stats.turns, stats.total_tokens, stats.latency_p50_seconds) == (3, 15, 0)
    assert stats.last_end_time is not None
    total = await sdk.threads.aggregate_stats(
        project_id=project, select=["THREAD_COUNT", "TRACE_COUNT", "ERROR_RATE"]
    )
    assert (total.thread_count, total.trace_count, total.error_rate) == (1, 3, pytest.approx(1 / 3))
    body = {"session_id": project, "group_by": "conversation"}
    groups = (await workspace.client.post("/runs/group", json=body)).json()
    assert [(item["group_key"], item["count"]) for item in groups["groups"]] == [("t-1", 3)]
    assert groups["total"] == 1
    assert (await workspace.client.post("/runs/group", json={**body, "offset": 1})).json()["groups"] == []
    legacy = sdk.list_threads(project_id=project)
    assert [(item["thread_id"], item["count"]) for item in legacy] == [("t-1", 3)]


async def test_errors_are_problems(
    workspace: Workspace, other_workspace: Workspace, runs: list[dict[str, Any]], project: str
) -> None:
    async def refused(path: str, body: dict[str, Any], client: Any = workspace.client) -> tuple[int, str]:
        answer = await client.post(f"/api/v2{path}", json=body)
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert problem["instance"] == f"/api/v2{path}"
        assert {"type", "title", "detail", "remedy"} <= problem.keys()
        return answer.status_code, problem["detail"]

    mine = {"project_ids": [project]}
    for path, body, status, words in (
        ("/runs/query", {}, 400, "exactly one"),
        ("/runs/query", {**mine, "filter": "eq(name"}, 400, "filter"),
        ("/runs/query", {**mine, "selects": ["COLOUR"]}, 422, "COLOUR"),
        ("/runs/query", {**mine, "cursor": "x"}, 400, "cursor"),
        ("/runs/query", {**mine, "page_size": 1_001}, 422, "page_size"),
        ("/runs/query", {**mine, "ai_search": "angry"}, 501, "ai_search"),
        ("/runs/query", {"project_ids": [str(uuid4())]}, 404, "not found"),
        ("/traces/query", {"project_id": str(uuid4())}, 404, "not found"),
        ("/threads/query", {"project_id": project, "thread_filter": "gt(turns, 1)"}, 501, "thread_filter"),
        ("/threads/stats", {"project_id": project, "select": ["COLOUR"]}, 422, "COLOUR"),
        (f"/datasets/{uuid4()}/experiment-runs", {"experiment_ids": [project]}, 404, "not found"),
    ):
        found, detail = await refused(path, body)
        assert (found, words in detail) == (status, True), (path, body, found, detail)
    for path, body in (("/runs/query", mine), ("/traces/query", {"project_id": project})):
        assert (await refused(path, body, other_workspace.client))[0] == 404
    read = await other_workspace.client.get(f"/api/v2/runs/{runs[0]['id']}", params={"project_id": project})
    assert read.status_code == 404
    assert (await workspace.client.get("/api/v2/runs/x", headers={"X-Api-Key": "no"})).status_code == 401


async def test_projects_and_examples_change_through_the_generated_clients(
    sdk: Client, workspace: Workspace
) -> None:
    project = await sdk.sessions.create(name="generated")
    changed = await sdk.sessions.update(project.id, description="d")
    assert (changed.name, changed.description) == ("generated", "d")
    dataset = (await workspace.client.post("/datasets", json={"name": "generated"})).json()
    example = await workspace.client.post("/examples", json={"dataset_id": dataset["id"], "inputs": {"n": 1}})
    for _ in range(2):
        await sdk.datasets.examples.delete(example.json()["id"], dataset_id=dataset["id"])
    assert (await workspace.client.get("/examples", params={"dataset": dataset["id"]})).json() == []


async def test_generated_clients_that_are_not_offered_are_refused_once(sdk: Client) -> None:
    some_id = str(uuid4())

    async def agents() -> None:
        await asyncio.to_thread(lambda: list(sdk.agents.list()))

    async def boxes() -> None:
        [box async for box in await sdk.sandboxes.boxes.list()]  # type: ignore[attr-defined]

    for word, call in {
        "agents": agents,
        "Sandboxes": boxes,
        "Online evaluators": lambda: sdk.evaluators.delete(some_id),
        "Annotation queues": lambda: sdk.annotation_queues.retrieve_size(some_id),
        "Addresses": lambda: sdk.sessions.resolve(kind="AGENT", id="a", environment="LOCAL"),
        "Threads": lambda: sdk.threads.share.create("t", project_id=some_id),
    }.items():
        with pytest.raises(APIStatusError) as refused:
            await call()
        assert refused.value.status_code == 501
        assert word in str(refused.value)
        assert refused.value.response.headers["x-should-retry"] == "false"
