"""AutoscaleWorkflow: as many worker processes as runs wait for. Started by the schedule `autoscale`."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from workflows.messages.autoscale import (
        AUTOSCALE_DEPLOYMENTS,
        AUTOSCALE_WORKFLOW,
        Autoscale,
        Autoscaled,
    )


@workflow.defn(name=AUTOSCALE_WORKFLOW, failure_exception_types=[Exception])
class AutoscaleWorkflow:
    """Writes what should run; each listener brings it about."""

    @workflow.run
    async def run(self, autoscale: Autoscale) -> Autoscaled:
        result: Autoscaled = await workflow.execute_activity(
            AUTOSCALE_DEPLOYMENTS,
            autoscale,
            result_type=Autoscaled,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        return result
