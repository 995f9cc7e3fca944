"""State updates: applied once, behind their fence, with their public states."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from temporalio.common import RetryPolicy

from tests.runtime.harness import Deployed
from workflows.messages import names
from workflows.messages.revision import UPDATE_STATE, UpdateState


async def _update(
    deployed: Deployed, thread_id: UUID, graph_id: str, request: dict[str, Any], *, times: int = 1
) -> dict[str, Any] | None:
    update_id = uuid4()
    async with deployed.database.connection() as connection:
        await connection.execute(
            "INSERT INTO state_updates (update_id, thread_id, deployment_id, tenant_id, graph_id, request)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            (
                update_id,
                thread_id,
                deployed.deployment_id,
                deployed.tenant_id,
                graph_id,
                orjson.dumps(request).decode(),
            ),
        )
    for _ in range(times):
        await deployed.client.execute_activity(
            UPDATE_STATE,
            UpdateState(str(thread_id), str(update_id)),
            id=str(uuid4()),
            task_queue=names.revision_queue(str(deployed.revision_id)),
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
    row = await deployed.one("SELECT response FROM state_updates WHERE update_id = %s", update_id)
    return row["response"]


async def test_an_update_is_applied_once_and_its_state_is_public(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("steps", input={"done": []})
    await deployed.ended(run_id)
    before = await deployed.states(thread_id)
    request = {"supersteps": [[{"values": {"done": ["mine"]}, "as_node": "step2"}]], "metadata": {"by": "me"}}
    response = await _update(deployed, thread_id, "steps", request, times=2)
    states = await deployed.states(thread_id)
    assert len(states) == len(before) + 1
    assert response is not None
    assert states[-1]["checkpoint_id"] == response["checkpoint"]["checkpoint_id"]
    assert states[-1]["values"]["done"][-1] == "mine"
    assert states[-1]["next"] == ["step3"]
    assert states[-1]["metadata"]["source"] == "update"
    assert states[-1]["metadata"]["by"] == "me"


async def test_supersteps_fill_a_fresh_thread(deployed: Deployed) -> None:
    thread_id = await deployed.thread()
    steps = [
        [{"values": {"done": ["given"]}, "as_node": "__start__"}],
        [{"values": {"done": ["one"]}, "as_node": "step1"}],
    ]
    assert "checkpoint" in (await _update(deployed, thread_id, "steps", {"supersteps": steps}) or {})
    assert (await deployed.states(thread_id))[-1]["values"]["done"] == ["given", "one"]


async def test_a_wrong_node_is_said_and_changes_nothing(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("steps", input={"done": []})
    await deployed.ended(run_id)
    before = await deployed.states(thread_id)
    request = {"supersteps": [[{"values": {"done": ["x"]}, "as_node": "nowhere"}]]}
    response = await _update(deployed, thread_id, "steps", request)
    assert response is not None
    assert "nowhere" in response["error"]
    assert await deployed.states(thread_id) == before


async def test_an_update_never_meets_a_run(deployed: Deployed) -> None:
    thread_id = await deployed.thread()
    run_id = await deployed.insert_run(thread_id, "steps", {"input": {}})
    async with deployed.database.connection() as connection:
        await connection.execute("UPDATE runs SET status = 'running' WHERE run_id = %s", (run_id,))
    request = {"supersteps": [[{"values": {"done": ["x"]}, "as_node": "step1"}]]}
    assert await _update(deployed, thread_id, "steps", request) is None
    assert await deployed.states(thread_id) == []
