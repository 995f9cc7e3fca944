"""LaneWorkflow: stateless runs at once, cancel, continue-as-new, handing over."""

import asyncio

from temporalio.client import WorkflowExecutionStatus

from tests.workflows.conftest import DEADLINE, Lane, Stage


def lane_of(stage: Stage, **options: int) -> Lane:
    return Lane(stage.thread.client, stage.deployment_id, **options)


async def test_stateless_runs_execute_at_the_same_time(stage: Stage) -> None:
    lane = lane_of(stage)
    await lane.submit(*(stage.run(f"hold-{n}") for n in range(5)))
    await stage.seen(*(f"start hold-{n}" for n in range(5)))
    stage.script.let_go |= {stage.id(f"hold-{n}") for n in range(5)}
    await stage.seen(*(f"end hold-{n}" for n in range(5)))


async def test_idle_lane_ends(stage: Stage) -> None:
    lane = lane_of(stage)
    await lane.submit(stage.run("one"))
    async with asyncio.timeout(DEADLINE):
        await lane.handle.result()
    assert (await lane.handle.describe()).status == WorkflowExecutionStatus.COMPLETED


async def test_delayed_run_starts_later_and_a_cancelled_one_never(stage: Stage) -> None:
    lane = lane_of(stage)
    await lane.submit(stage.run("later", after_seconds=0.7), stage.run("never", after_seconds=0.5))
    await lane.cancel(stage.id("never"))
    await stage.seen("interrupted never", "end later")
    assert "start never" not in stage.log


async def test_running_run_is_cancelled_and_others_go_on(stage: Stage) -> None:
    lane = lane_of(stage)
    await lane.submit(stage.run("hold-1"), stage.run("hold-2"))
    await stage.seen("start hold-1", "start hold-2")
    await lane.cancel(stage.id("hold-1"))
    await stage.seen("interrupted hold-1")
    stage.script.let_go.add(stage.id("hold-2"))
    await stage.seen("end hold-2")


async def test_full_lane_hands_runs_over_and_passes_their_cancel_on(stage: Stage) -> None:
    lane = lane_of(stage, max_running=1)
    await lane.submit(stage.run("hold-1"), stage.run("hold-2"), stage.run("three"))
    await stage.seen("start hold-1", "start hold-2", "end three")
    await lane.cancel(stage.id("hold-2"))
    await stage.seen("interrupted hold-2")
    stage.script.let_go.add(stage.id("hold-1"))
    await stage.seen("end hold-1")


async def test_run_that_fails_is_settled(stage: Stage) -> None:
    lane = lane_of(stage)
    await lane.submit(stage.run("fail-1"), stage.run("next"))
    await stage.seen("error fail-1 GraphLoadError", "end next")
