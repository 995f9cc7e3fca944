"""Runs that their worker did not end."""

import json
from uuid import UUID

from storage.run_settlement import settle_run
from tests.streams.conftest import Served


async def test_a_state_without_a_checkpoint_ends_with_its_run(streaming: Served) -> None:
    """Its worker recorded the state of a step, and was stopped before it had stored the checkpoint."""
    thread_id = await streaming.thread()
    run_id = await streaming.insert_run(thread_id, "steps", {})
    stored, lost = "1f000000-0000-6000-8000-000000000001", "1f000000-0000-6000-8000-000000000002"
    await _state(streaming, thread_id, run_id, stored, ["step1"])
    await _state(streaming, thread_id, run_id, lost, ["step1", "step2"])
    async with streaming.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata, deployment_id)"
            " VALUES (%s, '', %s, '{}', '{}', %s)",
            (str(thread_id), stored, streaming.deployment_id),
        )
        assert await settle_run(connection, thread_id, run_id, "interrupted", None)
    thread = str(thread_id)
    state = (await streaming.http.get(f"/threads/{thread}/state")).json()
    assert (state["checkpoint_id"], state["values"]) == (stored, {"done": ["step1"]})
    assert len((await streaming.http.get(f"/threads/{thread}/history")).json()) == 1
    assert (await streaming.http.get(f"/threads/{thread}")).json()["values"] == {"done": ["step1"]}


async def _state(served: Served, thread_id: UUID, run_id: UUID, checkpoint_id: str, done: list[str]) -> None:
    place = {"thread_id": str(thread_id), "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    state = {"values": {"done": done}, "next": ["x"], "tasks": [], "metadata": {}, "created_at": None}
    shown = {
        **state,
        "checkpoint": place,
        "parent_checkpoint": None,
        "interrupts": [],
        "checkpoint_id": checkpoint_id,
    }
    async with served.database.connection() as connection:
        await connection.execute(
            "INSERT INTO thread_states (thread_id, checkpoint_id, deployment_id, run_id, state)"
            " VALUES (%s, %s, %s, %s, %s)",
            (thread_id, checkpoint_id, served.deployment_id, run_id, json.dumps(shown)),
        )
