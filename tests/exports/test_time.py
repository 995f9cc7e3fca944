"""Days and weeks of exports, in skipped time: the workflows are real, what they ask of the world is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from stack.tools import tool
from tests.exports.world import World
from workflows.export import ExportWorkflow
from workflows.export_schedule import ExportBackfillWorkflow, ExportWindowWorkflow
from workflows.messages import names
from workflows.messages.export import (
    EXPORT_WORKFLOW,
    ExportInput,
    ExportPolicy,
    RunExport,
    RunExportResult,
    Written,
)
from workflows.messages.export_schedule import (
    BACKFILL_WORKFLOW,
    Backfill,
    ScheduledExport,
    Windows,
)


@asynccontextmanager
async def skipping(world: World) -> AsyncIterator[tuple[WorkflowEnvironment, Client]]:
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=str(tool("temporal-test-server"))
    )
    async with environment, _workers(environment.client, world):
        yield environment, environment.client


@asynccontextmanager
async def _workers(client: Client, world: World) -> AsyncIterator[None]:
    activities = world.activities()
    workflows = [ExportWorkflow, ExportWindowWorkflow, ExportBackfillWorkflow]
    async with (
        Worker(client, task_queue=names.PLATFORM_QUEUE, workflows=workflows, activities=activities),
        Worker(client, task_queue=names.EXPORT_QUEUE, activities=activities),
    ):
        yield


async def never_succeeds(request: RunExport) -> RunExportResult:
    raise ApplicationError("the bucket is away", next_retry_delay=timedelta(hours=1))


async def succeeds(request: RunExport) -> RunExportResult:
    return RunExportResult("COMPLETED", rows=1, bytes=1, files=1)


async def duration(handle: WorkflowHandle[Any, Any]) -> timedelta:
    description = await handle.describe()
    assert description.close_time is not None
    return description.close_time - description.start_time


async def test_after_72_hours_an_export_is_timed_out_with_a_run_in_flight() -> None:
    world = World(never_succeeds)
    async with skipping(world) as (environment, client):
        handle = await client.start_workflow(
            EXPORT_WORKFLOW, ExportInput("t", "e"), id="export/e", task_queue=names.PLATFORM_QUEUE
        )
        await environment.sleep(timedelta(hours=71))
        assert world.finished == []
        await environment.sleep(timedelta(hours=1, minutes=5))
        assert await handle.result() == "TIMEDOUT"
        assert timedelta(hours=72) <= await duration(handle) < timedelta(hours=72, minutes=2)

    assert [(end.status, end.error) for end in world.finished] == [
        ("TIMEDOUT", "The export did not end within 72 hours.")
    ]


async def test_an_export_may_wait_for_its_bucket_for_almost_72_hours() -> None:
    async def succeeds_late(request: RunExport) -> RunExportResult:
        if activity.info().attempt <= 70:
            return await never_succeeds(request)
        return await succeeds(request)

    world = World(succeeds_late)
    async with skipping(world) as (environment, client):
        handle = await client.start_workflow(
            EXPORT_WORKFLOW, ExportInput("t", "e"), id="export/e", task_queue=names.PLATFORM_QUEUE
        )
        await environment.sleep(timedelta(hours=71))
        assert await handle.result() == "COMPLETED"
        assert await duration(handle) >= timedelta(hours=70)


def test_what_is_done_is_carried_over_to_the_next_run_of_the_workflow() -> None:
    """Continue-as-new: whoever watches sees counts go on, not start again."""
    given = ExportInput("t", "e", ExportPolicy(), 5.0, 3, 9, 100, Written(rows=70, bytes=800, files=4))

    assert ExportWorkflow(given)._carried_over(5.0) == given


async def test_windows_are_spawned_when_they_come_due_for_a_week() -> None:
    """Six-hour windows from now on: each is spawned ten minutes after its end, in order, none twice."""
    world = World(succeeds, runs=28)
    async with skipping(world) as (environment, client):
        start = (await environment.get_current_time()).replace(microsecond=0)
        windows = Windows(start.isoformat(), 6 * 3600)
        handle = await client.start_workflow(
            BACKFILL_WORKFLOW,
            Backfill(ScheduledExport("t", "s", windows), 0, 28),
            id="export-backfill/s",
            task_queue=names.PLATFORM_QUEUE,
        )
        assert await handle.result() == 28

    assert [number for number, _ in world.spawned] == list(range(28))
    for number, spawned_at in world.spawned:
        due = start + (number + 1) * timedelta(hours=6) + timedelta(minutes=10)
        assert timedelta(0) <= spawned_at - due < timedelta(minutes=2)
    assert {end.status for end in world.finished} == {"COMPLETED"}


@pytest.mark.parametrize(
    "start",
    [
        datetime(2024, 2, 28, 18, tzinfo=UTC),  # over a leap day
        datetime(2026, 3, 28, 22, 30, tzinfo=UTC),  # over the European change of clocks
        datetime(2026, 10, 31, 23, 59, 59, 999999, tzinfo=UTC),  # over the American one, with a fraction
    ],
)
@pytest.mark.parametrize("hours", [1, 6, 24, 168])
def test_windows_follow_each_other_exactly(start: datetime, hours: int) -> None:
    windows = Windows(start.isoformat(), hours * 3600)

    for number in range(200):
        lower, upper = windows.bounds(number)
        assert (lower, upper) == (
            start + number * timedelta(hours=hours),
            start + (number + 1) * timedelta(hours=hours),
        )
        assert windows.bounds(number + 1)[0] == upper
        assert windows.last_due(windows.due(number)) == number
        assert windows.last_due(windows.due(number) - timedelta(microseconds=1)) == number - 1
