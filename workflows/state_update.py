"""StateUpdateWorkflow: has one write to a thread's state executed by the revision that serves it."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.revision import (
        STATE_UPDATE_WORKFLOW,
        UPDATE_STATE,
        StateUpdate,
        StateUpdateOutcome,
        UpdateState,
    )


@workflow.defn(name=STATE_UPDATE_WORKFLOW, failure_exception_types=[Exception])
class StateUpdateWorkflow:
    """Ends within `wait_seconds + execute_seconds`; what the worker answered lies in the update's row."""

    @workflow.run
    async def run(self, update: StateUpdate) -> str:
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
