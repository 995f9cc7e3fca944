"""Executing one run: attempts, stopping, and the final status where no revision worker gave it.

Shared by the ThreadWorkflow, which executes runs one by one, and the LaneWorkflow, which executes many at once.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.thread import (
        EXECUTE_RUN,
        ROLL_BACK_RUN,
        SETTLE_RUN,
        CancelAction,
        ExecuteRun,
        Outcome,
        RollBackRun,
        Run,
        RunResult,
        RunStatus,
        SettleRun,
    )
    from workflows.messages.webhook import DeliverWebhook

from workflows.webhook import announce_end

# A revision worker beats every second; one that missed eight is taken for dead and the run starts again elsewhere.
_HEARTBEAT_TIMEOUT = timedelta(seconds=8)
# How long a cancelled run may take to write its last state; then it is fenced off and its place is free.
_CANCEL_GRACE = timedelta(seconds=3)
# The run's whole time is over; of a run that no worker ever took, the server says SCHEDULE_TO_START.
_RUN_TIMEOUTS = (TimeoutType.SCHEDULE_TO_CLOSE, TimeoutType.SCHEDULE_TO_START)


class RunExecution:
    """One run from its turn to its final status. `execute` returns when the run's row has that status."""

    def __init__(self, deployment_id: str, thread_id: str, run: Run) -> None:
        self.run = run
        self._deployment_id = deployment_id
        self._thread_id = thread_id
        self._stop: CancelAction | None = None

    def stop(self, action: CancelAction) -> None:
        """Cancel the run; of several requests the first counts."""
        self._stop = self._stop or action

    async def execute(self) -> None:
        await self._execute()
        await _tell(self._thread_id, self.run)

    async def _execute(self) -> None:
        outcome = Outcome.RELEASED
        try:
            while outcome == Outcome.RELEASED and not self._stop:
                outcome = await self._attempt()
        except ActivityError as error:
            if not self._stop:
                await self._settle_failed(error)
                return
        if self._stop and outcome == Outcome.RELEASED:
            await settle_stopped(self._thread_id, self.run, self._stop)

    async def _attempt(self) -> Outcome:
        """Let a revision worker execute the run; Temporal starts it again if that worker dies."""
        run = self.run
        activity = workflow.start_activity(
            EXECUTE_RUN,
            ExecuteRun(run.run_id, self._thread_id),
            result_type=RunResult,
            task_queue=names.deployment_queue(self._deployment_id),
            schedule_to_close_timeout=timedelta(seconds=run.timeout_seconds),
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            retry_policy=RetryPolicy(
                initial_interval=timedelta(milliseconds=200),
                maximum_interval=timedelta(seconds=10),
                maximum_attempts=run.max_attempts,
            ),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            priority=Priority(priority_key=run.priority) if run.priority else Priority.default,
            summary=f"Run {run.run_id}",
        )
        await workflow.wait_condition(lambda: activity.done() or self._stop is not None)
        if not activity.done():
            activity.cancel()
            if not await _done_within(activity, _CANCEL_GRACE):
                return Outcome.RELEASED
        result: RunResult = await activity
        return Outcome(result.outcome)

    async def _settle_failed(self, failure: ActivityError) -> None:
        run, cause = self.run, failure.cause
        if isinstance(cause, ActivityTimeoutError) and cause.type in _RUN_TIMEOUTS:
            message = f"The run did not end within {run.timeout_seconds:g} s."
            await self._settle(RunStatus.TIMEOUT, "RunTimeout", message)
        elif isinstance(cause, ActivityTimeoutError):
            message = f"The worker died {run.max_attempts} times while it executed this run."
            await self._settle(RunStatus.ERROR, "WorkerDied", message)
        elif isinstance(cause, ApplicationError):
            await self._settle(RunStatus.ERROR, cause.type or "ApplicationError", cause.message)
        else:
            await self._settle(RunStatus.ERROR, "RunFailed", str(cause or failure))

    async def _settle(self, status: RunStatus, error: str, message: str) -> None:
        await _project(SETTLE_RUN, SettleRun(self.run.run_id, self._thread_id, status, error, message))


async def settle_stopped(thread_id: str, run: Run, action: CancelAction) -> None:
    """The end of a run that was cancelled, before or after it started."""
    if action == CancelAction.ROLLBACK:
        await _project(ROLL_BACK_RUN, RollBackRun(run.run_id, thread_id))
    else:
        await _project(SETTLE_RUN, SettleRun(run.run_id, thread_id, RunStatus.INTERRUPTED))
        await _tell(thread_id, run)


async def _tell(thread_id: str, run: Run) -> None:
    """The run's webhook hears of its end, while the queue goes on. Of a run that was rolled back nothing is left."""
    if run.webhook:
        await announce_end(DeliverWebhook(thread_id, run.run_id))


async def _project(activity: str, change: SettleRun | RollBackRun) -> None:
    """Write a status through the platform's database, however long that is away."""
    await workflow.execute_activity(
        activity,
        change,
        task_queue=names.PLATFORM_QUEUE,
        start_to_close_timeout=timedelta(seconds=30),
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=10)),
    )


async def _done_within(activity: workflow.ActivityHandle[RunResult], grace: timedelta) -> bool:
    try:
        await workflow.wait_condition(activity.done, timeout=grace)
    except TimeoutError:
        return False
    return True
