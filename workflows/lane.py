"""LaneWorkflow: many stateless runs at once, in no order (docs/architecture/thread.md, Lanes)."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import TemporalError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.lane import LANE_WORKFLOW, CancelLaneRun, LaneDescription, LaneInput, LaneRun
    from workflows.messages.thread import (
        CANCEL_SIGNAL,
        DESCRIBE_QUERY,
        SUBMIT_SIGNAL,
        THREAD_WORKFLOW,
        CancelAction,
        CancelRun,
        QueuedRun,
        ThreadInput,
    )

from workflows.execution import RunExecution, settle_stopped


# No failure_exception_types: what goes wrong in this code must stop the lane until it is mended, not lose its runs.
@workflow.defn(name=LANE_WORKFLOW)
class LaneWorkflow:
    """Executes stateless runs as they come. Each has a temporary thread of its own.

    A lane continues as new whenever nothing runs in it and its history has grown. Should overlapping runs
    never leave such a moment, it hands new runs to workflows of their own threads until there is one.
    """

    @workflow.init
    def __init__(self, lane: LaneInput) -> None:
        self._lane = lane
        self._waiting: list[LaneRun] = list(lane.waiting)
        self._running: dict[str, RunExecution] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self._arrivals = 0

    @workflow.run
    async def run(self, lane: LaneInput) -> None:
        while True:
            for failure in self._failures:
                raise failure
            self._start_due()
            if not self._tasks:
                if workflow.info().is_continue_as_new_suggested():
                    workflow.continue_as_new(self._carried_over())
                if not self._waiting and not await self._work_arrives():
                    return
            await self._something_changes()

    @workflow.signal(name=SUBMIT_SIGNAL)
    def submit(self, run: LaneRun) -> None:
        delay = run.run.after_seconds
        due_at = workflow.now().timestamp() + delay if delay > 0 else 0.0
        self._waiting.append(LaneRun(run.thread_id, run.run, due_at))
        self._arrivals += 1

    @workflow.signal(name=CANCEL_SIGNAL)
    def cancel(self, cancel: CancelLaneRun) -> None:
        """Stop a run, waiting, running, or handed over to its thread's workflow."""
        action = CancelAction(cancel.action)
        if execution := self._running.get(cancel.run_id):
            execution.stop(action)
            return
        for waiting in self._waiting:
            if waiting.run.run_id == cancel.run_id:
                self._waiting.remove(waiting)
                self._begin(settle_stopped(waiting.thread_id, waiting.run, action))
                return
        self._begin(_pass_on(cancel))

    @workflow.query(name=DESCRIBE_QUERY)
    def describe(self) -> LaneDescription:
        return LaneDescription(list(self._running), [waiting.run.run_id for waiting in self._waiting])

    def _start_due(self) -> None:
        now = workflow.now().timestamp()
        for due in [waiting for waiting in self._waiting if waiting.due_at <= now]:
            self._waiting.remove(due)
            self._begin(self._hand_over(due) if self._is_full() else self._execute(due))

    def _is_full(self) -> bool:
        history = workflow.info().get_current_history_length()
        return len(self._running) >= self._lane.max_running or (
            bool(self._running) and history >= self._lane.drain_at_events
        )

    async def _execute(self, due: LaneRun) -> None:
        execution = RunExecution(self._lane.deployment_id, due.thread_id, due.run)
        self._running[due.run.run_id] = execution
        try:
            await execution.execute()
        finally:
            del self._running[due.run.run_id]

    async def _hand_over(self, due: LaneRun) -> None:
        """Let the workflow of the run's own thread execute it."""
        lane = self._lane
        await workflow.start_child_workflow(
            THREAD_WORKFLOW,
            ThreadInput(lane.tenant_id, lane.deployment_id, due.thread_id, 0.1, [QueuedRun(due.run)]),
            id=names.thread_workflow_id(due.thread_id),
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=f"Stateless run {due.run.run_id}",
        )

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()):
            self._failures.append(failure)

    async def _something_changes(self) -> None:
        """A run becomes due or arrives, the first task begins or the last one ends."""
        now = workflow.now().timestamp()
        if any(waiting.due_at <= now for waiting in self._waiting):
            return
        arrivals, busy = self._arrivals, bool(self._tasks)
        next_due = min((waiting.due_at for waiting in self._waiting), default=None)
        timeout = timedelta(seconds=max(next_due - now, 0.001)) if next_due is not None else None
        try:
            await workflow.wait_condition(
                lambda: self._arrivals != arrivals or bool(self._tasks) != busy or bool(self._failures),
                timeout=timeout,
            )
        except TimeoutError:
            return

    async def _work_arrives(self) -> bool:
        """Wait for anything to do; False once the lane has been idle for its time."""
        try:
            await workflow.wait_condition(
                lambda: bool(self._waiting or self._tasks),
                timeout=timedelta(seconds=self._lane.idle_seconds),
            )
        except TimeoutError:
            return False
        return True

    def _carried_over(self) -> LaneInput:
        lane = self._lane
        return LaneInput(
            lane.tenant_id,
            lane.deployment_id,
            lane.idle_seconds,
            lane.max_running,
            lane.drain_at_events,
            self._waiting,
        )


async def _pass_on(cancel: CancelLaneRun) -> None:
    """The run has ended, or its thread's own workflow has it."""
    thread = workflow.get_external_workflow_handle(names.thread_workflow_id(cancel.thread_id))
    try:
        await thread.signal(CANCEL_SIGNAL, CancelRun(cancel.run_id, cancel.action))
    except TemporalError:
        workflow.logger.info("cancelled run has ended", extra={"run_id": cancel.run_id})
