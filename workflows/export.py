"""ExportWorkflow: one bulk export, from its plan to its final status (bulk export contract §2)."""

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.export import (
        BEGIN_EXPORT,
        CANCEL_EXPORT_SIGNAL,
        EXPORT_WORKFLOW,
        FINISH_EXPORT,
        LIST_EXPORT_RUNS,
        PLAN_EXPORT,
        RUN_EXPORT,
        UNFINISHED,
        Begun,
        ExportInput,
        ExportRef,
        ExportStatus,
        Finished,
        FinishExport,
        ListExportRuns,
        PendingRun,
        PendingRuns,
        Plan,
        RunExport,
        RunExportResult,
        Written,
    )

T = TypeVar("T")

# Everything else is tried again until the export's time is up.
NON_RETRYABLE_ERRORS = [
    "SupersededError",  # a newer attempt writes, or the export has ended: nobody has to act
    "UndecryptableSecretError",  # the operator: the secret key that the credentials were stored with is missing
]
_PAGE = 100


@workflow.defn(name=EXPORT_WORKFLOW, failure_exception_types=[Exception])
class ExportWorkflow:
    @workflow.init
    def __init__(self, export: ExportInput) -> None:
        self._export = export
        self._ref = ExportRef(export.tenant_id, export.export_id)
        self._cancelled = False
        self._planned_rows = export.planned_rows
        self._planned_runs = export.planned_runs
        self._finished_runs = export.finished_runs
        self._written = export.written
        self._failure: str | None = None
        self._left_over = False

    @workflow.run
    async def run(self, export: ExportInput) -> str:
        """The export's final status."""
        deadline = export.deadline or workflow.now().timestamp() + export.policy.timeout_seconds
        try:
            begun = await self._record(BEGIN_EXPORT, self._ref, Begun)
            if not begun.found:
                return "NEVER_CREATED"
            if begun.status not in UNFINISHED:
                return begun.status
            status = await self._work_until(deadline)
        except asyncio.CancelledError:
            status = ExportStatus.CANCELLED
        if self._left_over:
            workflow.continue_as_new(self._carried_over(deadline))
        error = self._failure if status != ExportStatus.TIMEDOUT else _timeout_text(export)
        finished = await self._record(FINISH_EXPORT, FinishExport(self._ref, status, error), Finished)
        self._show(finished.status, finished.error)
        return finished.status

    @workflow.signal(name=CANCEL_EXPORT_SIGNAL)
    def cancel(self) -> None:
        self._cancelled = True

    async def _work_until(self, deadline: float) -> ExportStatus:
        """Work until it is done, cancelled, or its time is up; then nothing of it is in flight any more."""
        work = asyncio.create_task(self._work())
        status = ExportStatus.COMPLETED
        try:
            await workflow.wait_condition(
                lambda: work.done() or self._cancelled,
                timeout=timedelta(seconds=max(deadline - workflow.now().timestamp(), 0)),
                timeout_summary="Time that this export may take",
            )
        except TimeoutError:
            status = ExportStatus.TIMEDOUT
        except asyncio.CancelledError:
            # Cancelled by an operator in the Temporal UI.
            self._cancelled = True
        if work.done():
            await work
            return ExportStatus.FAILED if self._failure else status
        work.cancel()
        await _ended_within(work, self._export.policy.grace_seconds)
        return ExportStatus.CANCELLED if self._cancelled else status

    async def _work(self) -> None:
        if self._planned_runs is None:
            plan = await self._record(PLAN_EXPORT, self._ref, Plan)
            self._failure = plan.failure
            self._planned_runs, self._planned_rows = plan.runs, plan.rows
            self._show(ExportStatus.RUNNING)
        while not self._failure:
            request = ListExportRuns(self._ref, _PAGE)
            pending = await self._record(LIST_EXPORT_RUNS, request, PendingRuns)
            if not pending.runs:
                return
            await self._execute(pending.runs)
            if workflow.info().is_continue_as_new_suggested():
                self._left_over = not self._failure
                return

    async def _execute(self, runs: list[PendingRun]) -> None:
        """Let the runs be written, a bounded number at a time, until all are or one has failed."""
        waiting = list(runs)
        in_flight: list[asyncio.Task[None]] = []
        try:
            while (waiting or in_flight) and not self._failure:
                while waiting and len(in_flight) < self._export.policy.window:
                    in_flight.append(asyncio.create_task(self._execute_one(waiting.pop(0))))
                done, in_flight = await workflow.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    await task
        finally:
            for task in in_flight:
                task.cancel()
            await asyncio.gather(*in_flight, return_exceptions=True)

    async def _execute_one(self, run: PendingRun) -> None:
        policy = self._export.policy
        try:
            result: RunExportResult = await workflow.execute_activity(
                RUN_EXPORT,
                RunExport(self._ref, run.run_id),
                result_type=RunExportResult,
                activity_id=f"run/{run.run_id}",
                task_queue=names.EXPORT_QUEUE,
                # Beyond the export's own time, which ends it first.
                start_to_close_timeout=timedelta(seconds=policy.timeout_seconds + 3600),
                heartbeat_timeout=timedelta(seconds=policy.heartbeat_timeout_seconds),
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(seconds=policy.retry_seconds),
                    maximum_interval=timedelta(seconds=policy.max_retry_seconds),
                    non_retryable_error_types=NON_RETRYABLE_ERRORS,
                ),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                # Between tenants in turn, however many runs one of them has waiting.
                priority=Priority(priority_key=4, fairness_key=self._export.tenant_id),
                summary=run.summary,
            )
        except ActivityError as error:
            if isinstance(error.cause, asyncio.CancelledError) or not isinstance(
                error.cause, ApplicationError
            ):
                raise
            self._failure = self._failure or error.cause.message
            return
        self._finished_runs += 1
        done = self._written
        self._written = Written(done.rows + result.rows, done.bytes + result.bytes, done.files + result.files)
        if result.failure:
            self._failure = self._failure or f"{run.summary}: {result.failure}"
        self._show(ExportStatus.RUNNING)

    async def _record(self, activity: str, request: Any, answer: type[T]) -> T:
        """Use the platform's records, however long the database is away."""
        found: T = await workflow.execute_activity(
            activity,
            request,
            result_type=answer,
            task_queue=names.PLATFORM_QUEUE,
            start_to_close_timeout=timedelta(minutes=30),
            retry_policy=RetryPolicy(
                maximum_interval=timedelta(seconds=30), non_retryable_error_types=NON_RETRYABLE_ERRORS
            ),
        )
        return found

    def _show(self, status: str, error: str | None = None) -> None:
        """What an operator sees of the export in the Temporal UI."""
        lines = [
            f"**{status}**",
            f"- export `{self._export.export_id}` of workspace `{self._export.tenant_id}`",
            f"- runs: {self._finished_runs} of {self._planned_runs} (one per project and UTC day)",
            f"- rows: {self._written.rows:,} of {self._planned_rows:,}",
            f"- files: {self._written.files:,}, {self._written.bytes / 1e6:,.1f} MB",
        ]
        if error:
            lines.append(f"- reason: {error.replace('`', chr(39))}")
        workflow.set_current_details("\n".join(lines))

    def _carried_over(self, deadline: float) -> ExportInput:
        export = self._export
        return ExportInput(
            export.tenant_id,
            export.export_id,
            export.policy,
            deadline,
            self._finished_runs,
            self._planned_runs,
            self._planned_rows,
            self._written,
        )


def _timeout_text(export: ExportInput) -> str:
    return f"The export did not end within {export.policy.timeout_seconds / 3600:g} hours."


async def _ended_within(task: asyncio.Task[None], seconds: float) -> None:
    try:
        await workflow.wait_condition(task.done, timeout=timedelta(seconds=seconds))
    except TimeoutError:
        return
