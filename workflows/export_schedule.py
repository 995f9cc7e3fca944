"""Scheduled exports: what a Temporal Schedule starts for each window, and the backfill of past windows."""

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.export import EXPORT_WORKFLOW, ExportInput
    from workflows.messages.export_schedule import (
        BACKFILL_WORKFLOW,
        CANCEL_BACKFILL_SIGNAL,
        DELETE_EXPORT_SCHEDULE,
        LIST_MISSING_WINDOWS,
        SPAWN_EXPORT,
        SPAWN_WORKFLOW,
        Backfill,
        ListMissingWindows,
        MissingWindows,
        ScheduledExport,
        Spawned,
        SpawnExport,
    )

T = TypeVar("T")

_SCHEDULED_AT = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")
_PAGE = 100


@workflow.defn(name=SPAWN_WORKFLOW, failure_exception_types=[Exception])
class ExportWindowWorkflow:
    """Spawns the export of the window that the scheduled time stands for, and of any earlier one without.

    The window comes from the scheduled time, never from now. Earlier windows are missing if the schedule was
    paused; each window has one export at most, whoever spawns it.
    """

    @workflow.run
    async def run(self, export: ScheduledExport) -> list[str]:
        """Ids of the exports of this and of missing windows."""
        scheduled_at = workflow.info().typed_search_attributes.get(_SCHEDULED_AT) or workflow.now()
        last = export.windows.last_due(scheduled_at)
        spawned: list[str] = []
        request = ListMissingWindows(export, last, _PAGE)
        while missing := (await _call(LIST_MISSING_WINDOWS, request, MissingWindows)).windows:
            for window in missing:
                found = await _call(SPAWN_EXPORT, SpawnExport(export, window), Spawned)
                if not found.found:
                    await _call(DELETE_EXPORT_SCHEDULE, export, type(None))
                if found.export_id is None:
                    return spawned
                await _start(export, found.export_id)
                spawned.append(found.export_id)
        return spawned


@workflow.defn(name=BACKFILL_WORKFLOW, failure_exception_types=[Exception])
class ExportBackfillWorkflow:
    """Spawns the windows that had passed when a schedule was created: each waits until an earlier one has ended."""

    def __init__(self) -> None:
        self._cancelled = False
        self._running = 0
        self._waiting: set[asyncio.Task[None]] = set()

    @workflow.run
    async def run(self, backfill: Backfill) -> int:
        """Number of the first window that was left to others."""
        export, window = backfill.export, backfill.next_window
        while window < backfill.until_window and await self._due(export, window):
            spawned = await _call(SPAWN_EXPORT, SpawnExport(export, window), Spawned)
            if not spawned.found:
                await _call(DELETE_EXPORT_SCHEDULE, export, type(None))
            if spawned.export_id is None:
                return window
            self._follow(export, spawned.export_id)
            window += 1
            workflow.set_current_details(f"{window} of {backfill.until_window} past windows spawned")
            rotate = workflow.info().is_continue_as_new_suggested()
            allowed = 0 if rotate or window == backfill.until_window else backfill.at_once - 1
            await self._at_most(allowed)
            if rotate and not self._cancelled:
                workflow.continue_as_new(Backfill(export, window, backfill.until_window, backfill.at_once))
        return window

    @workflow.signal(name=CANCEL_BACKFILL_SIGNAL)
    def cancel(self) -> None:
        self._cancelled = True

    def _follow(self, export: ScheduledExport, export_id: str) -> None:
        self._running += 1
        task = asyncio.create_task(self._start_and_wait(export, export_id))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _start_and_wait(self, export: ScheduledExport, export_id: str) -> None:
        """However the export ends, the next one may begin."""
        try:
            handle = await _start(export, export_id)
            if handle is not None:
                await handle
        except ChildWorkflowError:
            return
        finally:
            self._running -= 1

    async def _at_most(self, count: int) -> None:
        """Wait until no more than `count` exports of this backfill are running."""
        await workflow.wait_condition(lambda: self._cancelled or self._running <= count)

    async def _due(self, export: ScheduledExport, window: int) -> bool:
        """Wait for a window that ends about now; False if cancelled."""
        seconds = (export.windows.due(window) - workflow.now()).total_seconds()
        if seconds > 0:
            try:
                await workflow.wait_condition(lambda: self._cancelled, timeout=timedelta(seconds=seconds))
            except TimeoutError:
                return True
        return not self._cancelled


async def _start(export: ScheduledExport, export_id: str) -> "workflow.ChildWorkflowHandle[Any, Any] | None":
    """Start a spawned export, which lives on by itself; None if it was started before."""
    try:
        return await workflow.start_child_workflow(
            EXPORT_WORKFLOW,
            ExportInput(export.tenant_id, export_id, export.policy),
            id=names.export_workflow_id(export_id),
            task_queue=names.PLATFORM_QUEUE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=f"Export spawned by schedule {export.schedule_id}",
        )
    except WorkflowAlreadyStartedError:
        return None


async def _call(activity: str, request: Any, answer: type[T]) -> T:
    found: T = await workflow.execute_activity(
        activity,
        request,
        result_type=answer,
        task_queue=names.PLATFORM_QUEUE,
        start_to_close_timeout=timedelta(minutes=2),
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=30)),
    )
    return found
