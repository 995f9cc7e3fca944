"""Every public method of the Python SDK's client works here, needs no server, or is refused by name."""

import asyncio
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langsmith import Client
from langsmith.evaluation import evaluate, evaluate_comparative
from langsmith.schemas import DataType, ExampleCreate, ExampleUpdate, ExampleUpsertWithAttachments
from langsmith.utils import LangSmithError

from tests.conftest import Workspace
from tests.traces.wire import root_run

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore:.*deprecated.*"),
]

# Without a request of their own: properties, settings, what only ever raises, what ends the client.
LOCAL = {
    *("api_key", "workspace_id", "headers", "tracing_mode", "get_run_url", "evaluate_run", "aevaluate_run"),
    *("list_feedback_formulas", "get_feedback_formula_by_id", "create_feedback_formula"),
    *("update_feedback_formula", "delete_feedback_formula", "cleanup", "close", "request_with_retries"),
    *("runs", "threads", "traces", "sessions", "datasets", "public", "agents", "evaluators", "sandboxes"),
    "annotation_queues",
}
# By other tests: test_sdk.py (evaluations), and what those and tracing itself go through.
ELSEWHERE = {
    *("evaluate", "aevaluate", "get_experiment_results", "aread_project", "flush_compressed_traces"),
    *("batch_ingest_runs", "multipart_ingest", "list_threads"),
}
SOME_ID = str(uuid4())
# A call of each, and a word of the reason that comes with 501.
REFUSED: dict[str, tuple[Callable[[Client], Any], str]] = {
    "list_annotation_queues": (lambda sdk: list(sdk.list_annotation_queues()), "Annotation queues"),
    "create_annotation_queue": (lambda sdk: sdk.create_annotation_queue(name="q"), "Annotation queues"),
    "read_annotation_queue": (lambda sdk: sdk.read_annotation_queue(SOME_ID), "Annotation queues"),
    "update_annotation_queue": (
        lambda sdk: sdk.update_annotation_queue(SOME_ID, name="q"),
        "Annotation queues",
    ),
    "delete_annotation_queue": (lambda sdk: sdk.delete_annotation_queue(SOME_ID), "Annotation queues"),
    "add_runs_to_annotation_queue": (
        lambda sdk: sdk.add_runs_to_annotation_queue(SOME_ID, run_ids=[SOME_ID]),
        "Annotation queues",
    ),
    "delete_run_from_annotation_queue": (
        lambda sdk: sdk.delete_run_from_annotation_queue(SOME_ID, run_id=SOME_ID),
        "Annotation queues",
    ),
    "get_run_from_annotation_queue": (
        lambda sdk: sdk.get_run_from_annotation_queue(SOME_ID, index=0),
        "Annotation queues",
    ),
    "list_runs_from_annotation_queue": (
        lambda sdk: list(sdk.list_runs_from_annotation_queue(SOME_ID)),
        "Annotation queues",
    ),
    "like_prompt": (lambda sdk: sdk.like_prompt("p"), "hub"),
    "unlike_prompt": (lambda sdk: sdk.unlike_prompt("p"), "hub"),
    "list_prompts": (lambda sdk: sdk.list_prompts(), "hub"),
    "get_prompt": (lambda sdk: sdk.get_prompt("p"), "hub"),
    "create_prompt": (lambda sdk: sdk.create_prompt("p"), "hub"),
    "create_commit": (lambda sdk: sdk.create_commit("p", object={}), "hub"),
    "update_prompt": (lambda sdk: sdk.update_prompt("p", description="d"), "hub"),
    "delete_prompt": (lambda sdk: sdk.delete_prompt("p"), "hub"),
    "pull_prompt_commit": (lambda sdk: sdk.pull_prompt_commit("p"), "hub"),
    "list_prompt_commits": (lambda sdk: list(sdk.list_prompt_commits("p")), "hub"),
    "pull_prompt": (lambda sdk: sdk.pull_prompt("p"), "hub"),
    "push_prompt": (lambda sdk: sdk.push_prompt("p", object={}), "hub"),
    "pull_agent": (lambda sdk: sdk.pull_agent("a"), "hub"),
    "push_agent": (lambda sdk: sdk.push_agent("a", files={}), "hub"),
    "delete_agent": (lambda sdk: sdk.delete_agent("a"), "hub"),
    "agent_exists": (lambda sdk: sdk.agent_exists("a"), "hub"),
    "list_agents": (lambda sdk: sdk.list_agents(), "hub"),
    "pull_skill": (lambda sdk: sdk.pull_skill("a"), "hub"),
    "push_skill": (lambda sdk: sdk.push_skill("a", files={}), "hub"),
    "delete_skill": (lambda sdk: sdk.delete_skill("a"), "hub"),
    "skill_exists": (lambda sdk: sdk.skill_exists("a"), "hub"),
    "list_skills": (lambda sdk: sdk.list_skills(), "hub"),
    "generate_insights": (
        lambda sdk: sdk.generate_insights(
            chat_histories=[[{"role": "user", "content": "hi"}]], openai_api_key="k"
        ),
        "Secrets",
    ),
    "poll_insights": (lambda sdk: sdk.poll_insights(id=SOME_ID, project_id=SOME_ID, rate=1), "Insights"),
    "get_insights_report": (
        lambda sdk: sdk.get_insights_report(id=SOME_ID, project_id=SOME_ID),
        "Insights",
    ),
    "list_project_issues": (lambda sdk: sdk.list_project_issues("p"), "Issues"),
}


class RecordingClient(Client):
    """The SDK's client, which remembers the names of the methods that were called."""

    called: set[str] = set()

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(Client, name):
            RecordingClient.called.add(name)
        return super().__getattribute__(name)


@pytest.fixture
def client(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> RecordingClient:
    monkeypatch.setenv("LANGSMITH_ENDPOINT", workspace.api_url)
    monkeypatch.setenv("LANGSMITH_API_KEY", workspace.api_key)
    RecordingClient.called = set()
    return RecordingClient(api_url=workspace.api_url, api_key=workspace.api_key)


async def test_what_is_not_offered_is_refused_by_name(client: Client) -> None:
    for name, (call, word) in REFUSED.items():
        with pytest.raises(LangSmithError) as refused:
            await asyncio.to_thread(call, client)
        assert "501" in str(refused.value), (name, refused.value)
        assert word in str(refused.value), (name, refused.value)


async def test_every_method_works_or_is_refused_by_name(
    client: Client, other_workspace: Workspace, tmp_path: Path
) -> None:
    def walk() -> None:
        run_id = _runs(client)
        _feedback(client, run_id)
        name = _datasets(client, tmp_path)
        _examples(client, name, run_id)
        _sharing(client, name, run_id, other_workspace)
        _experiments(client, name)

    await asyncio.to_thread(walk)
    public = {name for name in dir(Client) if not name.startswith("_")}
    assert public - RecordingClient.called - LOCAL - ELSEWHERE - REFUSED.keys() == set()


def _runs(client: Client) -> str:
    assert client.info.version
    run = root_run(session_name="surface")
    client.create_run(
        "chain", {"question": "?"}, "chain", id=run["id"], project_name="surface",
        extra={"metadata": {"thread_id": "t"}},
    )  # fmt: skip
    client.update_run(run["id"], outputs={"answer": "!"}, end_time=datetime.now(UTC))
    client.flush()
    assert client.read_run(run["id"]).outputs == {"answer": "!"}
    assert [str(found.id) for found in client.list_runs(project_name="surface")] == [run["id"]]
    assert len(list(client.read_thread(thread_id="t", project_name="surface"))) == 1
    assert client.get_run_stats(project_names=["surface"])["run_count"] == 1
    assert client.has_project("surface")
    project = client.create_project("other")
    assert client.update_project(project.id, description="d").description == "d"
    assert client.read_project(project_id=project.id).name == "other"
    assert {found.name for found in client.list_projects()} >= {"surface", "other"}
    client.delete_project(project_id=str(project.id))
    return str(run["id"])


def _feedback(client: Client, run_id: str) -> None:
    made = client.create_feedback(run_id, "good", score=0.5)
    client.update_feedback(made.id, score=1)
    assert client.read_feedback(made.id).score == 1
    config: Any = {"type": "continuous", "min": 0, "max": 1}
    client.create_feedback_config("good", feedback_config=config)
    client.update_feedback_config("good", feedback_config={**config, "max": 2})
    assert [found.feedback_key for found in client.list_feedback_configs()] == ["good"]
    client.delete_feedback_config("good")
    token = client.create_presigned_feedback_token(run_id, "rated", expiration=timedelta(hours=1))
    more = client.create_presigned_feedback_tokens(run_id, ["a", "b"])
    assert {t.id for t in client.list_presigned_feedback_tokens(run_id)} == {token.id, *(t.id for t in more)}
    client.create_feedback_from_token(token.id, score=1, comment="fine")
    client.create_feedback_from_token(token.id, score=0)
    scores = {record.key: record.score for record in client.list_feedback(run_ids=[run_id])}
    assert scores == {"good": 1, "rated": 0}
    client.delete_feedback(made.id)


def _datasets(client: Client, folder: Path) -> str:
    import pandas

    file = folder / "questions.csv"
    file.write_text('question,answer\n"what, why",one\nünï,two\n', encoding="utf-8")
    made = client.upload_csv(str(file), ["question"], ["answer"], name="questions")
    frame = pandas.DataFrame({"x": [1], "y": [2]})
    client.upload_dataframe(frame, "frame", ["x"], ["y"])
    with pytest.raises(LangSmithError, match="already exists"):
        client.upload_csv(("f.csv", io.BytesIO(b"x\n1\n")), ["x"], [], name="questions")
    for broken in (b"x\n1,2\n", b"y\n1\n", b"\xff", b"x\n", b'x\n"1\n'):
        with pytest.raises(LangSmithError, match="422"):
            client.upload_csv(("f.csv", io.BytesIO(broken)), ["x"], [], name="broken")
    assert not client.has_dataset(dataset_name="broken")
    rows = [(e.inputs, e.outputs) for e in client.list_examples(dataset_name="questions")]
    assert ({"question": "what, why"}, {"answer": "one"}) in rows
    written = client.request_with_retries("GET", f"/datasets/{made.id}/csv").content.decode()
    assert set(written.splitlines()) == set(file.read_text().splitlines())
    lines = client.request_with_retries("GET", f"/datasets/{made.id}/jsonl").text.splitlines()
    assert {json.loads(line)["inputs"]["question"] for line in lines} == {"what, why", "ünï"}
    chat = client.create_dataset("chat", data_type=DataType.chat)
    human = {"type": "human", "data": {"content": "hi"}}
    client.create_chat_example([human], {"type": "ai", "data": {"content": "hello"}}, dataset_id=chat.id)  # type: ignore
    assert client.read_dataset_openai_finetuning(chat.id) == [
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}
    ]
    with pytest.raises(LangSmithError, match="no conversations"):
        client.read_dataset_openai_finetuning(made.id)
    assert {dataset.name for dataset in client.list_datasets()} == {"questions", "frame", "chat"}
    client.delete_dataset(dataset_name="frame")
    return "questions"


def _examples(client: Client, name: str, run_id: str) -> None:
    dataset = client.read_dataset(dataset_name=name)
    before = client.read_dataset_version(dataset_id=dataset.id, tag="latest")
    client.update_dataset_tag(dataset_id=dataset.id, as_of=before.as_of, tag="first")
    old = next(iter(client.list_examples(dataset_id=dataset.id)))
    client.update_example(old.id, outputs={"answer": "new"})
    assert (client.read_example(old.id).outputs or {})["answer"] == "new"
    made = [
        client.create_example({"question": "a"}, dataset_id=dataset.id).id,
        client.create_example_from_run(client.read_run(run_id), dataset_id=dataset.id).id,
    ]
    client.create_llm_example("prompt", "generation", dataset_id=dataset.id)
    many: Any = client.create_examples(dataset_id=dataset.id, examples=[{"inputs": {"question": "b"}}])
    client.update_examples(dataset_id=dataset.id, updates=[{"id": made[0], "metadata": {"k": "v"}}])
    client.upload_examples_multipart(dataset_id=dataset.id, uploads=[ExampleCreate(inputs={"question": "c"})])
    client.update_examples_multipart(
        dataset_id=dataset.id, updates=[ExampleUpdate(id=made[0], outputs={"answer": "d"})]
    )
    client.upsert_examples_multipart(
        upserts=[ExampleUpsertWithAttachments(dataset_id=dataset.id, inputs={"question": "e"})]
    )
    client.update_dataset_splits(dataset_id=dataset.id, split_name="train", example_ids=[old.id])
    assert "train" in client.list_dataset_splits(dataset_id=dataset.id)
    client.delete_example(made[1])
    client.delete_examples([many["example_ids"][0]])
    difference = client.diff_dataset_versions(dataset.id, from_version="first", to_version="latest")
    assert difference.examples_modified == [old.id]
    assert made[0] in difference.examples_added
    assert not {made[1], many["example_ids"][0]} & set(difference.examples_added)
    assert difference.examples_removed == []
    assert len(list(client.list_dataset_versions(dataset_id=dataset.id))) > 5


def _sharing(client: Client, name: str, run_id: str, other: Workspace) -> None:
    dataset = client.read_dataset(dataset_name=name)
    shared = client.share_dataset(dataset.id)
    assert client.read_dataset_shared_schema(dataset.id)["share_token"] == shared["share_token"]
    token = str(shared["share_token"])
    foreign = Client(api_url=other.api_url, api_key=other.api_key)
    assert foreign.read_shared_dataset(token).id == dataset.id
    assert {e.id for e in client.list_shared_examples(token)} == {
        e.id for e in client.list_examples(dataset_id=dataset.id)
    }
    assert client.read_shared_dataset(token).name == name
    copy = foreign.clone_public_dataset(token, dataset_name="copy")
    assert foreign.read_dataset(dataset_id=copy.id).example_count == dataset.example_count
    assert client.clone_public_dataset(token).id == dataset.id
    with pytest.raises(LangSmithError, match="not found"):
        foreign.share_dataset(dataset.id)
    client.unshare_dataset(dataset.id)
    with pytest.raises(LangSmithError, match="unshared"):
        foreign.read_shared_dataset(token)
    assert not client.run_is_shared(run_id)
    link = client.share_run(run_id)
    assert client.read_run_shared_link(run_id) == link
    run_token = link.split("/")[-2]
    assert str(foreign.read_shared_run(run_token).id) == run_id
    assert [str(run.id) for run in client.list_shared_runs(run_token)] == [run_id]
    assert str(client.read_shared_run(run_token, run_id).id) == run_id
    with pytest.raises(LangSmithError, match="not found"):
        foreign.share_run(run_id)
    client.unshare_run(run_id)
    with pytest.raises(LangSmithError, match="unshared"):
        foreign.read_shared_run(run_token)


def _experiments(client: Client, name: str) -> None:
    options: Any = {"data": name, "client": client}
    first = evaluate(lambda inputs: {"answer": "one"}, **options)
    second = evaluate(lambda inputs: {"answer": "two"}, **options)
    client.flush()
    names: Any = (first.experiment_name, second.experiment_name)
    prefer: Any = lambda runs, example: {"key": "better", "scores": {run.id: n for n, run in enumerate(runs)}}  # noqa: E731
    compared = evaluate_comparative(names, evaluators=[prefer], client=client)
    list(compared)
    client.flush()
    dataset = client.read_dataset(dataset_name=name)
    answer = client.request_with_retries("GET", f"/datasets/{dataset.id}/comparative").json()
    assert [row["id"] for row in answer] == [str(compared.comparative_experiment.id)]  # type: ignore[union-attr]
    assert {info["name"] for info in answer[0]["experiments_info"]} == set(names)
    assert answer[0]["feedback_stats"]["better"]["n"] == 2 * (dataset.example_count or 0)
    assert len(client.get_test_results(project_name=names[0])) == dataset.example_count
    token = str(client.share_dataset(dataset.id)["share_token"])
    assert {p.name for p in client.list_shared_projects(dataset_share_token=token)} == set(names)
    experiment = client.read_project(project_name=names[0])

    async def by_example() -> list[Any]:
        pages = client.datasets.experiment_runs.query(
            str(dataset.id), experiment_ids=[str(experiment.id)], selects=["OUTPUTS"], page_size=2
        )
        return [example async for example in pages]

    found = asyncio.run(by_example())
    assert len(found) == dataset.example_count
    assert all([run.outputs for run in example.runs] == [{"answer": "one"}] for example in found)
