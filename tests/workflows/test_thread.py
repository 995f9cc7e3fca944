"""ThreadWorkflow: the law of order, stopping and idling (docs/architecture/thread.md)."""

import asyncio
import uuid

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from tests.workflows.conftest import DEADLINE, ScriptedActivities, Stage, Thread
from workflows.messages.thread import ThreadDescription


async def test_enqueued_runs_execute_in_order_of_receipt_and_never_overlap(stage: Stage) -> None:
    await stage.thread.submit(*(stage.run(f"run-{n}") for n in range(5)))
    await stage.seen("end run-4")
    assert stage.log == [f"{what} run-{n}" for n in range(5) for what in ("start", "end")]


async def test_idle_thread_ends_its_workflow_and_the_next_run_starts_a_new_one(stage: Stage) -> None:
    await stage.thread.submit(stage.run("first"))
    async with asyncio.timeout(DEADLINE):
        await stage.thread.handle.result()
    await stage.thread.submit(stage.run("second"))
    await stage.seen("end second")
    assert stage.log == ["start first", "end first", "start second", "end second"]


async def test_failing_run_is_settled_and_the_next_one_starts(stage: Stage) -> None:
    await stage.thread.submit(stage.run("fail-1"), stage.run("next"))
    await stage.seen("end next")
    assert stage.log == ["start fail-1", "error fail-1 GraphLoadError", "start next", "end next"]


async def test_delayed_run_does_not_block_an_immediate_one(stage: Stage) -> None:
    await stage.thread.submit(stage.run("later", after_seconds=3.0), stage.run("now"))
    await stage.seen("end now")
    async with asyncio.timeout(DEADLINE):
        while await stage.thread.describe() != ThreadDescription(None, [], [stage.id("later")]):
            assert "start later" not in stage.log
    await stage.seen("end later")
    assert stage.log == ["start now", "end now", "start later", "end later"]


async def test_cancelled_waiting_run_is_settled_at_once_and_never_starts(stage: Stage) -> None:
    await stage.thread.submit(stage.run("hold-1"), stage.run("waiting"), stage.run("last"))
    await stage.seen("start hold-1")
    await stage.thread.cancel(stage.id("waiting"))
    await stage.seen("interrupted waiting")
    stage.script.let_go.add(stage.id("hold-1"))
    await stage.seen("end last")
    assert "start waiting" not in stage.log


async def test_cancelled_running_run_is_interrupted_and_the_queue_goes_on(stage: Stage) -> None:
    await stage.thread.submit(stage.run("hold-1"), stage.run("next"))
    await stage.seen("start hold-1")
    await stage.thread.cancel(stage.id("hold-1"))
    await stage.seen("end next")
    assert stage.log == ["start hold-1", "interrupted hold-1", "start next", "end next"]


async def test_cancel_with_rollback_rolls_the_run_back(stage: Stage) -> None:
    await stage.thread.submit(stage.run("hold-1"))
    await stage.seen("start hold-1")
    await stage.thread.cancel(stage.id("hold-1"), "rollback")
    await stage.seen("rolled back hold-1")


@pytest.mark.parametrize(("strategy", "ending"), [("interrupt", "interrupted"), ("rollback", "rolled back")])
async def test_strategy_stops_the_running_run_and_drops_the_waiting_ones(
    stage: Stage, strategy: str, ending: str
) -> None:
    await stage.thread.submit(stage.run("hold-1"), stage.run("waiting"))
    await stage.seen("start hold-1")
    await stage.thread.submit(stage.run("urgent", strategy=strategy))
    await stage.seen("end urgent", f"{ending} hold-1", f"{ending} waiting")
    assert "start waiting" not in stage.log
    assert stage.log.index(f"{ending} hold-1") < stage.log.index("start urgent")


async def test_released_run_goes_on_without_a_failed_attempt(stage: Stage) -> None:
    await stage.thread.submit(stage.run("released-1", max_attempts=1), stage.run("next"))
    await stage.seen("end next")
    assert stage.log == ["start released-1", "start released-1", "end released-1", "start next", "end next"]


async def test_run_without_any_worker_times_out_and_can_be_cancelled(
    temporal: Client, platform: dict[str, ScriptedActivities]
) -> None:
    deployment_id, script = uuid.uuid4().hex, ScriptedActivities()
    platform[deployment_id] = script
    stage = Stage(Thread(temporal, deployment_id, idle_seconds=0.1), script)
    await stage.thread.submit(stage.run("slow", timeout_seconds=1.0), stage.run("unwanted"))
    await stage.seen("timeout slow RunTimeout")
    await stage.thread.cancel(stage.id("unwanted"))
    await stage.seen("interrupted unwanted")


async def test_same_run_submitted_twice_runs_once(stage: Stage) -> None:
    run = stage.run("hold-1")
    await stage.thread.submit(run, run)
    await stage.seen("start hold-1")
    stage.script.let_go.add(run.run_id)
    async with asyncio.timeout(DEADLINE):
        await stage.thread.handle.result()
    assert stage.log == ["start hold-1", "end hold-1"]


async def test_cancel_of_an_unknown_run_changes_nothing(stage: Stage) -> None:
    await stage.thread.submit(stage.run("hold-1"))
    await stage.seen("start hold-1")
    await stage.thread.cancel(stage.id("stranger"))
    stage.script.let_go.add(stage.id("hold-1"))
    await stage.seen("end hold-1")
    async with asyncio.timeout(DEADLINE):
        await stage.thread.handle.result()
    description = await stage.thread.handle.describe()
    assert description.status == WorkflowExecutionStatus.COMPLETED


async def test_runs_wait_for_the_state_updates_that_were_received_before_them(stage: Stage) -> None:
    """One is tried again, of another nobody is there to execute it: the runs behind it go on in its bounded time."""
    absent = uuid.uuid4().hex
    await stage.thread.submit(stage.run("hold-first"))
    await stage.seen("start hold-first")
    await stage.thread.update(stage.id("tried"), revision_id=stage.deployment_id)
    await stage.thread.update(stage.id("alone"), revision_id=absent, wait_seconds=0.5)
    await stage.thread.submit(stage.run("next"), stage.run("dropped"))
    await stage.thread.cancel(stage.id("dropped"))
    await stage.seen("interrupted dropped")
    stage.script.let_go.add(stage.id("hold-first"))
    await stage.seen("end next")
    assert stage.log == [
        "start hold-first",
        "interrupted dropped",
        "end hold-first",
        "update tried",
        "update tried",
        "answered tried",
        "no_worker alone",
        "start next",
        "end next",
    ]
