"""SweepWorkflow: deletes what has expired. Started by the schedule `sweep`, which never runs two at once."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from workflows.messages.sweep import SWEEP_BATCH, SWEEP_WORKFLOW, SweepBatch, SweepInput, Swept


@workflow.defn(name=SWEEP_WORKFLOW, failure_exception_types=[Exception])
class SweepWorkflow:
    """Batch after batch of each kind; a kind that fails does not keep the others from their turn."""

    @workflow.run
    async def run(self, sweep: SweepInput) -> dict[str, int]:
        swept: dict[str, int] = {}
        for kind in sweep.kinds:
            try:
                swept[kind] = await _sweep(kind, sweep.batches)
            except ActivityError as error:
                workflow.logger.warning("sweep_failed", extra={"kind": kind, "cause": str(error.cause)})
                swept[kind] = -1
        return swept


async def _sweep(kind: str, batches: int) -> int:
    rows = 0
    for _ in range(batches):
        batch: Swept = await workflow.execute_activity(
            SWEEP_BATCH,
            SweepBatch(kind),
            result_type=Swept,
            start_to_close_timeout=timedelta(minutes=2),
            retry_policy=RetryPolicy(maximum_attempts=3),
            summary=kind,
        )
        rows += batch.rows
        if not batch.more:
            break
    return rows
