"""TraceRetentionWorkflow: deletes expired and deleted traces. Started by the schedule `trace-retention`."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from workflows.messages.trace_retention import (
        TRACE_RETENTION_BATCH,
        TRACE_RETENTION_WORKFLOW,
        TraceRetentionBatch,
        TraceRetentionInput,
        TraceRetentionResult,
    )


@workflow.defn(name=TRACE_RETENTION_WORKFLOW, failure_exception_types=[Exception])
class TraceRetentionWorkflow:
    """Batch after batch of each kind; a kind that fails does not keep the others from their turn."""

    @workflow.run
    async def run(self, retention: TraceRetentionInput) -> dict[str, int]:
        done: dict[str, int] = {}
        for kind in retention.kinds:
            try:
                done[kind] = await _work_off(kind, retention.batches)
            except ActivityError as error:
                workflow.logger.warning(
                    "trace_retention_failed", extra={"kind": kind, "cause": str(error.cause)}
                )
                done[kind] = -1
        return done


async def _work_off(kind: str, batches: int) -> int:
    count = 0
    for _ in range(batches):
        batch: TraceRetentionResult = await workflow.execute_activity(
            TRACE_RETENTION_BATCH,
            TraceRetentionBatch(kind),
            result_type=TraceRetentionResult,
            start_to_close_timeout=timedelta(minutes=5),
            retry_policy=RetryPolicy(maximum_attempts=3),
            summary=kind,
        )
        count += batch.count
        if not batch.more:
            break
    return count
