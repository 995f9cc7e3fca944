"""What a revision says about its graphs, and about a project that does not load."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import ActivityFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from tests.runtime.harness import Deployed
from workflows.messages import names
from workflows.messages.revision import DESCRIBE_REVISION, Description


async def _describe(deployed: Deployed) -> Description:
    from datetime import timedelta

    return await deployed.client.execute_activity(
        DESCRIBE_REVISION,
        id=str(uuid4()),
        task_queue=names.revision_queue(str(deployed.revision_id)),
        start_to_close_timeout=timedelta(seconds=30),
        retry_policy=RetryPolicy(maximum_attempts=2),
        result_type=Description,
    )


async def _describe_failure(deployed: Deployed) -> ApplicationError:
    with pytest.raises(ActivityFailureError) as raised:
        await _describe(deployed)
    cause = raised.value.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.non_retryable) == ("ProjectError", True)
    return cause


def _project(folder: Path, code: str, **config: Any) -> Path:
    (folder / "agent.py").write_text(code)
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], **config}))
    return folder


async def test_graphs_are_described_with_schemas_drawings_and_subgraphs(deployed: Deployed) -> None:
    description = await _describe(deployed)
    graphs = {graph.graph_id: graph for graph in description.graphs}
    assert graphs["echo"].description == "Answers with what it got."
    assert "messages" in graphs["echo"].schemas["input"]["properties"]
    assert "done" in graphs["steps"].schemas["state"]["properties"]
    nodes = [node["id"] for node in graphs["steps"].drawings["0"]["nodes"]]
    assert nodes == ["__start__", "step1", "step2", "step3", "step4", "step5", "__end__"]
    assert any("ask" in node["id"] for node in graphs["nested"].drawings["1"]["nodes"])
    assert list(graphs["nested"].subgraphs) == ["inner"]


async def test_an_import_error_is_told_without_secrets(own_deployment: Deployed, tmp_path: Path) -> None:
    own_deployment.project = _project(
        tmp_path,
        "import os\nraise RuntimeError(os.environ['MY_TOKEN'])\n",
        graphs={"agent": "./agent.py:graph"},
    )
    own_deployment.start_worker(MY_TOKEN="very-secret-value")
    error = await _describe_failure(own_deployment)
    assert "agent.py" in error.message
    assert "RuntimeError" in error.message
    assert "very-secret-value" not in error.message
    assert "[MY_TOKEN]" in error.message


@pytest.mark.parametrize(
    ("code", "config", "expected"),
    [
        ("graph = 1\n", {"graphs": {"agent": "./agent.py:graph"}}, "neither a graph nor a factory"),
        ("", {"graphs": {"agent": "./agent.py:graph"}}, "has no object 'graph'"),
        ("", {"graphs": {"agent": "./other.py:graph"}}, "no file ./other.py"),
        ("", {"graphs": {"agent": "agent"}}, '"path:object"'),
        ("", {"graphs": {"a b": "./agent.py:graph"}}, "letters, digits"),
        ("", {}, "`graphs` must name"),
        ("", {"graphs": {"agent": "./agent.py:graph"}, "env": 3}, "`env` must be"),
        ("def make():\n    return 5\n", {"graphs": {"agent": "./agent.py:make"}}, "neither a graph"),
    ],
)
async def test_what_is_wrong_with_a_project_is_said(
    own_deployment: Deployed, tmp_path: Path, code: str, config: dict[str, Any], expected: str
) -> None:
    own_deployment.project = _project(tmp_path, code, **config)
    own_deployment.start_worker()
    assert expected in (await _describe_failure(own_deployment)).message
