"""One write to a thread's state: executed by the revision that serves it, in its place among the thread's runs."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.revision import (
        SETTLE_STATE_UPDATE,
        UPDATE_STATE,
        SettleStateUpdate,
        StateUpdate,
        StateUpdateOutcome,
        UpdateState,
    )


async def execute_state_update(update: StateUpdate) -> None:
    """Ends within `wait_seconds + execute_seconds`, with nobody left who may write for this update."""
    outcome = await _update(update)
    await workflow.execute_activity(
        SETTLE_STATE_UPDATE,
        SettleStateUpdate(update.thread_id, update.update_id, outcome),
        task_queue=names.PLATFORM_QUEUE,
        start_to_close_timeout=timedelta(seconds=30),
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=10)),
    )


async def _update(update: StateUpdate) -> StateUpdateOutcome:
    try:
        await workflow.execute_activity(
            UPDATE_STATE,
            UpdateState(update.thread_id, update.update_id),
            task_queue=names.revision_queue(update.revision_id),
            schedule_to_start_timeout=timedelta(seconds=update.wait_seconds),
            start_to_close_timeout=timedelta(seconds=update.execute_seconds),
            schedule_to_close_timeout=timedelta(seconds=update.wait_seconds + update.execute_seconds),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=3),
            summary=f"State of thread {update.thread_id}",
        )
    except ActivityError as error:
        cause = error.cause
        if isinstance(cause, ActivityTimeoutError) and cause.type == TimeoutType.SCHEDULE_TO_START:
            return StateUpdateOutcome.NO_WORKER
        return StateUpdateOutcome.FAILED
    return StateUpdateOutcome.ANSWERED
