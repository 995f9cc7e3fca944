"""Today's workflow code accepts what earlier code recorded: a running workflow survives an upgrade."""

import gc
import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from tests.workflows.record_histories import FOLDER
from worker import WORKFLOWS

HISTORIES = sorted(FOLDER.glob("*.json"))


def workflow_type(path: Path) -> str:
    """Type of the workflow that a recorded history belongs to."""
    started = json.loads(path.read_text())["events"][0]["workflowExecutionStartedEventAttributes"]
    return str(started["workflowType"]["name"])


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_recorded_history_replays(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = WorkflowHistory.from_json(path.stem, path.read_text())
    await Replayer(workflows=WORKFLOWS).replay_workflow(history)
    gc.collect()
    assert "never retrieved" not in caplog.text, (
        "a task of the workflow failed and nobody looked at its result"
    )


def test_every_workflow_has_a_recorded_history() -> None:
    recorded = {workflow_type(path) for path in HISTORIES}
    registered = {workflow.__temporal_workflow_definition.name for workflow in WORKFLOWS}  # type: ignore[attr-defined]
    assert registered <= recorded, "record one: see tests/workflows/record_histories.py"
