"""SweepWorkflow and its schedule, on a real server."""

import uuid
from collections import Counter
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.sweep import ensure_sweep_schedule
from workflows.messages.sweep import (
    SWEEP_BATCH,
    SWEEP_SCHEDULE,
    SWEEP_WORKFLOW,
    SweepBatch,
    SweepInput,
    Swept,
)
from workflows.sweep import SweepWorkflow


async def _swept(
    client: Client, left: dict[str, int], sweep: SweepInput
) -> tuple[dict[str, int], Counter[str]]:
    """Run a sweep over `left` rows of each kind, ten a batch; what it answers, and the batches of each kind."""
    calls: Counter[str] = Counter()

    @activity.defn(name=SWEEP_BATCH)
    async def batch(asked: SweepBatch) -> Swept:
        calls[asked.kind] += 1
        if asked.kind == "broken":
            raise ApplicationError("the database is away")
        rows = min(10, left[asked.kind])
        left[asked.kind] -= rows
        return Swept(rows, left[asked.kind] > 0)

    queue = str(uuid.uuid4())
    async with Worker(client, task_queue=queue, workflows=[SweepWorkflow], activities=[batch]):
        answer = await client.execute_workflow(
            SWEEP_WORKFLOW, sweep, id=queue, task_queue=queue, result_type=dict[str, int]
        )
    return answer, calls


async def test_a_sweep_goes_on_until_nothing_is_left(temporal: Client) -> None:
    answer, calls = await _swept(temporal, {"a": 25, "b": 0}, SweepInput(["a", "b"]))
    assert answer == {"a": 25, "b": 0}
    assert calls == {"a": 3, "b": 1}


async def test_a_sweep_is_bounded(temporal: Client) -> None:
    answer, calls = await _swept(temporal, {"a": 1_000}, SweepInput(["a"], batches=4))
    assert (answer, calls["a"]) == ({"a": 40}, 4)


async def test_a_kind_that_fails_does_not_keep_the_others_from_their_turn(temporal: Client) -> None:
    answer, calls = await _swept(temporal, {"a": 5}, SweepInput(["broken", "a"]))
    assert answer == {"broken": -1, "a": 5}
    assert calls["broken"] == 3


async def test_the_schedule_takes_a_new_interval_and_stays_paused(temporal: Client) -> None:
    handle = temporal.get_schedule_handle(SWEEP_SCHEDULE)
    await ensure_sweep_schedule(temporal, timedelta(minutes=5))
    await handle.pause(note="by an operator")
    await ensure_sweep_schedule(temporal, timedelta(minutes=7))
    schedule = (await handle.describe()).schedule
    assert [interval.every for interval in schedule.spec.intervals] == [timedelta(minutes=7)]
    assert schedule.state.paused
    await handle.delete()
