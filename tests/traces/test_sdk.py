"""The unmodified Python SDK traces, and reads back what it traced."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from langsmith import Client, aevaluate, evaluate, get_current_run_tree, traceable, tracing_context
from langsmith.run_helpers import get_tracing_context
from langsmith.schemas import Attachment

from tests.conftest import Workspace

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::langsmith.utils.LangSmithWarning"),
    pytest.mark.filterwarnings("ignore:.*deprecated.*"),
]
Query = Callable[..., Any]


@traceable(run_type="llm", metadata={"ls_provider": "openai", "ls_model_name": "gpt-4o-mini"})
def model(question: str) -> dict[str, Any]:
    return {
        "answer": question,
        "usage_metadata": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }


@traceable(run_type="tool")
def tool(fails: bool) -> str:
    if fails:
        raise ValueError("no such page")
    return "page"


@traceable
def counter(limit: int) -> Iterator[int]:
    yield from range(limit)


@traceable(tags=["test"], metadata={"customer": "acme"})
def agent(question: str) -> str:
    model(question)
    tool(False)
    list(counter(3))
    with pytest.raises(ValueError, match="no such page"):
        tool(True)
    return "done"


@traceable
async def later(question: str) -> str:
    await asyncio.gather(asyncio.to_thread(model, question), asyncio.to_thread(model, question))
    return "later"


async def project_of(workspace: Workspace, name: str) -> str:
    answer = await workspace.client.get("/api/v1/sessions", params={"name": name})
    return str(answer.json()[0]["id"])


async def test_nested_runs_errors_generators_and_usage_read_back(
    sdk: Client, workspace: Workspace, query: Query
) -> None:
    with tracing_context(project_name="nested", client=sdk, enabled=True):
        agent("why", langsmith_extra={"client": sdk})
    await asyncio.to_thread(sdk.flush)
    runs = {run["dotted_order"]: run for run in await query(session=[await project_of(workspace, "nested")])}
    tree = [runs[order] for order in sorted(runs)]
    assert [run["name"] for run in tree] == ["agent", "model", "tool", "counter", "tool"]
    root, call, _, stream, failed = tree
    assert root["status"] == "success"
    assert root["outputs"] == {"output": "done"}
    assert root["tags"] == ["test"]
    assert root["extra"]["metadata"]["customer"] == "acme"
    assert {run["trace_id"] for run in tree} == {root["id"]}
    assert all(run["parent_run_ids"] == [root["id"]] for run in tree[1:])
    assert stream["outputs"] == {"output": [0, 1, 2]}
    assert failed["status"] == "error"
    assert "no such page" in failed["error"]
    assert (call["prompt_tokens"], call["completion_tokens"], call["total_tokens"]) == (10, 5, 15)
    assert root["total_tokens"] == 15
    assert root["total_cost"] == call["total_cost"] == "0.0000045"


async def test_async_runs_and_distributed_headers_make_one_tree(
    sdk: Client, workspace: Workspace, query: Query
) -> None:
    with tracing_context(project_name="distributed", client=sdk, enabled=True):
        await later("when", langsmith_extra={"client": sdk})

        @traceable
        def caller() -> dict[str, str]:
            tree = get_current_run_tree()
            assert tree is not None
            return dict(tree.to_headers())

        headers = caller(langsmith_extra={"client": sdk})
    with tracing_context(parent=headers, project_name="distributed", client=sdk, enabled=True):
        assert get_tracing_context()["parent"] is not None
        tool(False)
    await asyncio.to_thread(sdk.flush)
    project = await project_of(workspace, "distributed")
    roots = {run["name"]: run for run in await query(session=[project], is_root=True)}
    assert set(roots) == {"later", "caller"}
    children = await query(trace=roots["caller"]["id"], is_root=False)
    assert [run["name"] for run in children] == ["tool"]
    assert roots["later"]["total_tokens"] == 30


async def test_attachments_come_back_through_signed_urls(
    sdk: Client, workspace: Workspace, query: Query
) -> None:
    @traceable(dangerously_allow_filesystem=False)
    def look(picture: Attachment) -> str:
        return "seen"

    content = b"\x89PNG" + bytes(range(256))
    with tracing_context(project_name="attached", client=sdk, enabled=True):
        look(Attachment(mime_type="image/png", data=content), langsmith_extra={"client": sdk})
    await asyncio.to_thread(sdk.flush)
    run = (await query(session=[await project_of(workspace, "attached")]))[0]
    link = run["s3_urls"]["attachment.picture"]
    assert link["mime_type"] == "image/png"
    answer = await workspace.client.get(link["presigned_url"], headers={"X-Api-Key": ""})
    assert answer.status_code == 200
    assert answer.content == content
    forged = link["presigned_url"][:-4] + "AAAA"
    assert (await workspace.client.get(forged)).status_code == 404


async def test_feedback_reaches_the_run_whichever_comes_first(
    sdk: Client, workspace: Workspace, query: Query
) -> None:
    run_id = uuid4()
    early = await workspace.client.post(
        "/feedback", json={"run_id": str(run_id), "key": "helpful", "value": "yes", "score": 1}
    )
    assert early.status_code == 200
    with tracing_context(project_name="rated", client=sdk, enabled=True):
        agent("rate me", langsmith_extra={"client": sdk, "run_id": run_id})
    await asyncio.to_thread(sdk.flush)
    await asyncio.to_thread(
        lambda: sdk.create_feedback(run_id, key="helpful", value="no", score=0, trace_id=run_id, comment="hm")
    )
    await asyncio.to_thread(sdk.flush)
    project = await project_of(workspace, "rated")
    run = (await query(session=[project], is_root=True))[0]
    stats = run["feedback_stats"]["helpful"]
    assert (stats["n"], stats["avg"], stats["values"]) == (2, 0.5, {"yes": 1, "no": 1})
    matching = await query(
        session=[project], filter='and(eq(feedback_key, "helpful"), lt(feedback_score, 0.5))'
    )
    assert [found["id"] for found in matching] == [str(run_id)]
    listed = (await workspace.client.get("/feedback", params={"run": str(run_id)})).json()
    deleted = await workspace.client.delete(f"/feedback/{listed[0]['id']}")
    assert deleted.status_code == 200
    run = (await query(session=[project], is_root=True))[0]
    assert run["feedback_stats"]["helpful"]["n"] == 1


async def test_evaluate_runs_to_the_end_and_its_results_read_back(sdk: Client, workspace: Workspace) -> None:
    name = f"questions {uuid4().hex[:8]}"

    def correct(outputs: dict[str, Any], reference_outputs: dict[str, Any]) -> bool:
        return bool(outputs["answer"] == reference_outputs["answer"])

    def how_many(runs: list[Any], examples: list[Any]) -> dict[str, Any]:
        return {"key": "how_many", "score": len(runs)}

    async def guess(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"answer": 1}

    def compute(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"answer": inputs["n"]}

    def run_both() -> tuple[str, str]:
        dataset = sdk.create_dataset(name)
        sdk.create_examples(
            dataset_id=dataset.id,
            examples=[{"inputs": {"n": n}, "outputs": {"answer": n}, "split": "train"} for n in range(4)],
        )
        exact = evaluate(compute, data=name, evaluators=[correct], summary_evaluators=[how_many], client=sdk)
        list(exact)
        return exact.experiment_name, str(dataset.id)

    experiment, dataset_id = await asyncio.to_thread(run_both)
    guessed = await aevaluate(guess, data=name, evaluators=[correct], client=sdk)
    await asyncio.to_thread(sdk.flush)
    first = await asyncio.to_thread(lambda: sdk.read_project(project_name=experiment, include_stats=True))
    second = await asyncio.to_thread(
        lambda: sdk.read_project(project_name=guessed.experiment_name, include_stats=True)
    )
    assert str(first.reference_dataset_id) == dataset_id
    assert (first.run_count, second.run_count) == (4, 4)
    assert first.feedback_stats["correct"]["avg"] == 1.0
    assert second.feedback_stats["correct"]["avg"] == 0.25
    assert first.session_feedback_stats["how_many"]["avg"] == 4.0
    again = await asyncio.to_thread(
        lambda: list(evaluate(experiment, evaluators=[lambda run: {"key": "again", "score": 1}], client=sdk))
    )
    assert len(again) == 4


async def test_results_of_an_experiment_read_back_by_example(
    sdk: Client, workspace: Workspace, other_workspace: Workspace
) -> None:
    name = f"results {uuid4().hex[:8]}"

    def double(inputs: dict[str, Any]) -> dict[str, Any]:
        if inputs["n"] == 2:
            raise ValueError("two is too many")
        return {"answer": inputs["n"] * 2}

    def small(outputs: dict[str, Any]) -> bool:
        return bool(outputs.get("answer", 9) < 3)

    def experiment() -> str:
        dataset = sdk.create_dataset(name)
        sdk.create_examples(dataset_id=dataset.id, examples=[{"inputs": {"n": n}} for n in range(4)])
        results = evaluate(double, data=name, evaluators=[small], client=sdk)
        list(results)
        sdk.create_examples(dataset_id=dataset.id, examples=[{"inputs": {"n": 9}}])
        sdk.flush()
        return results.experiment_name

    experiment_name = await asyncio.to_thread(experiment)

    def read(**options: Any) -> tuple[dict[str, Any], list[Any]]:
        results = dict(sdk.get_experiment_results(name=experiment_name, **options))
        return results, list(results["examples_with_runs"])

    results, examples = await asyncio.to_thread(read)
    assert (results["run_stats"]["run_count"], results["run_stats"]["error_rate"]) == (4, 0.25)
    assert results["feedback_stats"]["small"]["n"] == 4
    by_input = {example.inputs["n"]: example.runs for example in examples}
    assert {n: len(runs) for n, runs in by_input.items()} == {0: 1, 1: 1, 2: 1, 3: 1, 9: 0}
    assert [by_input[n][0].outputs for n in (0, 1, 3)] == [{"answer": 0}, {"answer": 2}, {"answer": 6}]
    assert "two is too many" in str(by_input[2][0].error)
    assert by_input[3][0].feedback_stats["small"]["avg"] == 0
    _, two = await asyncio.to_thread(lambda: read(limit=2, preview=True))
    assert [example.inputs["n"] for example in two] == [example.inputs["n"] for example in examples[:2]]
    project = by_input[0][0].session_id
    _, failed = await asyncio.to_thread(lambda: read(filters={project: ['eq(status, "error")']}))
    assert [example.inputs["n"] for example in failed if example.runs] == [2]

    path, asked = f"/api/v1/datasets/{examples[0].dataset_id}/runs", {"session_ids": [str(project)]}
    assert (await other_workspace.client.post(path, json=asked)).status_code == 404
    assert (await workspace.client.post(path, json={"session_ids": [str(uuid4())]})).status_code == 404
    assert (await workspace.client.post(path, json={"session_ids": []})).status_code == 422
    broken = {**asked, "filters": {str(project): ["eq(status"]}}
    assert (await workspace.client.post(path, json=broken)).status_code == 400
