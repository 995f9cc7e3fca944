"""Writes down histories of a running stack, against which later workflow code is replayed.

    python -m tests.workflows.record_histories 127.0.0.1:7233

Of each workflow type it keeps the histories that did the most different things (by their event types), at most
three. Run it before the workflow code of a released version is changed, and commit what it writes. Histories hold ids
and plain types only, so there is nothing secret in them.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHistory

from worker import WORKFLOWS

FOLDER = Path(__file__).parent / "histories"
KEPT_PER_TYPE = 3
LOOKED_AT = 60
MAX_EVENTS = 600


def variety(history: WorkflowHistory) -> frozenset[str]:
    """What a history did: kinds of events, with the activity or signal they were about."""
    kinds = set()
    for event in history.events:
        activity = event.activity_task_scheduled_event_attributes.activity_type.name
        signal = event.workflow_execution_signaled_event_attributes.signal_name
        kinds.add(f"{event.event_type}:{activity or signal}")
    return frozenset(kinds)


async def record(address: str) -> None:
    client = await Client.connect(address)
    for workflow in WORKFLOWS:
        workflow_type = workflow.__temporal_workflow_definition.name  # type: ignore[attr-defined]
        keep(workflow_type, await histories_of(client, workflow_type))


async def histories_of(client: Client, workflow_type: str) -> list[WorkflowHistory]:
    """Of the newest executions, closed or not."""
    found: list[WorkflowHistory] = []
    async for execution in client.list_workflows(f"WorkflowType = '{workflow_type}'", limit=LOOKED_AT):
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        history = await handle.fetch_history()
        if len(history.events) <= MAX_EVENTS:
            found.append(history)
    return found


def keep(workflow_type: str, histories: list[WorkflowHistory]) -> None:
    """The histories that together show the most, the richest first."""
    shown: set[str] = set()
    kept = 0
    for history in sorted(histories, key=lambda history: (-len(variety(history)), len(history.events))):
        if kept < KEPT_PER_TYPE and not variety(history) <= shown:
            shown |= variety(history)
            kept += 1
            path = FOLDER / f"{workflow_type}-{kept}.json"
            path.write_text(json.dumps(without_traces(json.loads(history.to_json())), indent=1) + "\n")
            sys.stdout.write(f"{path.name}: {len(history.events)} events of {history.workflow_id}\n")


def without_traces(value: Any) -> Any:
    """Without stack traces: replaying needs none, and they tell of the machine on which this was recorded."""
    if isinstance(value, dict):
        return {name: without_traces(item) for name, item in value.items() if name != "stackTrace"}
    return [without_traces(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(record(sys.argv[1]))
