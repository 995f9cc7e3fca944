"""ThreadWorkflow: the order of the runs of one thread (docs/architecture/thread.md)."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows.messages.revision import StateUpdate
    from workflows.messages.thread import (
        CANCEL_SIGNAL,
        DESCRIBE_QUERY,
        SUBMIT_SIGNAL,
        THREAD_WORKFLOW,
        UPDATE_SIGNAL,
        CancelAction,
        CancelRun,
        QueuedRun,
        Run,
        Strategy,
        ThreadDescription,
        ThreadInput,
    )

from workflows.execution import RunExecution, settle_stopped
from workflows.state_update import execute_state_update


# No failure_exception_types: what goes wrong in this code must stop the queue until it is mended, not lose its runs.
@workflow.defn(name=THREAD_WORKFLOW)
class ThreadWorkflow:
    """Runs one thread's runs one by one, in order of receipt; ends when the thread has been idle for a while.

    A write to the thread's state is only taken while no run waits or runs: whatever run is here came after it.
    """

    @workflow.init
    def __init__(self, thread: ThreadInput) -> None:
        self._thread = thread
        self._queue: list[QueuedRun] = list(thread.queue)
        self._updates: list[StateUpdate] = list(thread.updates)
        self._running: RunExecution | None = None
        self._dropped: list[tuple[Run, CancelAction]] = []
        self._arrivals = 0

    @workflow.run
    async def run(self, thread: ThreadInput) -> None:
        while True:
            await self._settle_dropped()
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._carried_over())
            if self._updates:
                await self._settling_dropped(execute_state_update(self._updates[0]))
                self._updates.pop(0)
            elif run := self._take_next():
                await self._execute(run)
            elif not await self._work_arrives():
                return

    @workflow.signal(name=SUBMIT_SIGNAL)
    def submit(self, run: Run) -> None:
        """A new run; `interrupt` and `rollback` stop the runs before it that are due."""
        if self._knows(run.run_id):
            return
        if run.strategy in (Strategy.INTERRUPT, Strategy.ROLLBACK):
            self._stop_all(CancelAction(run.strategy))
        due_at = workflow.now().timestamp() + run.after_seconds if run.after_seconds > 0 else 0.0
        self._queue.append(QueuedRun(run, due_at))
        self._arrivals += 1

    @workflow.signal(name=CANCEL_SIGNAL)
    def cancel(self, cancel: CancelRun) -> None:
        """Stop one run, waiting or running; an unknown one has ended, and nothing happens."""
        if self._running and self._running.run.run_id == cancel.run_id:
            self._running.stop(CancelAction(cancel.action))
            return
        for queued in self._queue:
            if queued.run.run_id == cancel.run_id:
                self._queue.remove(queued)
                self._dropped.append((queued.run, CancelAction(cancel.action)))
                return

    @workflow.signal(name=UPDATE_SIGNAL)
    def update_state(self, update: StateUpdate) -> None:
        """A write to the thread's state, before the runs that are received after it."""
        self._updates.append(update)
        self._arrivals += 1

    @workflow.query(name=DESCRIBE_QUERY)
    def describe(self) -> ThreadDescription:
        now = workflow.now().timestamp()
        return ThreadDescription(
            running=self._running.run.run_id if self._running else None,
            waiting=[queued.run.run_id for queued in self._queue if queued.due_at <= now],
            delayed=[queued.run.run_id for queued in self._queue if queued.due_at > now],
        )

    async def _execute(self, run: Run) -> None:
        self._running = RunExecution(self._thread.deployment_id, self._thread.thread_id, run)
        await self._settling_dropped(self._running.execute())
        self._running = None

    async def _settling_dropped(self, work: Coroutine[Any, Any, None]) -> None:
        """Some work to its end; runs cancelled meanwhile in the queue are settled at once."""
        task = asyncio.create_task(work)
        while not task.done():
            await workflow.wait_condition(lambda: task.done() or bool(self._dropped))
            await self._settle_dropped()
        await task

    async def _settle_dropped(self) -> None:
        while self._dropped:
            run, action = self._dropped[0]
            await settle_stopped(self._thread.thread_id, run, action)
            self._dropped.pop(0)

    def _take_next(self) -> Run | None:
        """The first run in order of receipt that is due."""
        now = workflow.now().timestamp()
        for queued in self._queue:
            if queued.due_at <= now:
                self._queue.remove(queued)
                return queued.run
        return None

    async def _work_arrives(self) -> bool:
        """Wait for a run to become due; False once the thread has been idle for its time."""
        now = workflow.now().timestamp()
        next_due = min((queued.due_at for queued in self._queue), default=None)
        seconds = self._thread.idle_seconds if next_due is None else max(next_due - now, 0.001)
        arrivals = self._arrivals
        try:
            await workflow.wait_condition(
                lambda: self._arrivals != arrivals or bool(self._dropped), timeout=timedelta(seconds=seconds)
            )
        except TimeoutError:
            return next_due is not None
        return True

    def _stop_all(self, action: CancelAction) -> None:
        """Stop the running run and drop those whose turn comes next; delayed runs are not in anyone's way."""
        if self._running:
            self._running.stop(action)
        now = workflow.now().timestamp()
        for queued in [queued for queued in self._queue if queued.due_at <= now]:
            self._queue.remove(queued)
            self._dropped.append((queued.run, action))

    def _knows(self, run_id: str) -> bool:
        running = self._running is not None and self._running.run.run_id == run_id
        return running or any(queued.run.run_id == run_id for queued in self._queue)

    def _carried_over(self) -> ThreadInput:
        thread = self._thread
        return ThreadInput(
            thread.tenant_id,
            thread.deployment_id,
            thread.thread_id,
            thread.idle_seconds,
            self._queue,
            self._updates,
        )
