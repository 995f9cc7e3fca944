"""PruneWorkflow: removes builds and environments that nobody will start again. Started by the schedule `prune`."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.prune import (
        FIND_BUILDERS,
        PRUNE_BUILDS,
        PRUNE_WORKFLOW,
        Prune,
        PruneBuilds,
        Pruned,
    )

# A listener that is away is asked again by the next firing.
_LISTENER_AWAY = timedelta(seconds=60)


@workflow.defn(name=PRUNE_WORKFLOW, failure_exception_types=[Exception])
class PruneWorkflow:
    """Each listener looks after the folder of its own host."""

    @workflow.run
    async def run(self, prune: Prune) -> Pruned:
        listeners: list[str] = await workflow.execute_activity(
            FIND_BUILDERS,
            result_type=list[str],
            start_to_close_timeout=timedelta(seconds=60),
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        pruned = await asyncio.gather(*(_prune(listener_id) for listener_id in listeners))
        return Pruned(sum(one.builds for one in pruned), sum(one.environments for one in pruned))


async def _prune(listener_id: str) -> Pruned:
    try:
        pruned: Pruned = await workflow.execute_activity(
            PRUNE_BUILDS,
            PruneBuilds(listener_id),
            result_type=Pruned,
            task_queue=names.listener_queue(listener_id),
            schedule_to_start_timeout=_LISTENER_AWAY,
            start_to_close_timeout=timedelta(minutes=30),
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=1),
            summary=f"Prune the folder of listener {listener_id}",
        )
    except ActivityError as error:
        workflow.logger.warning("not_pruned", extra={"listener_id": listener_id, "cause": str(error.cause)})
        return Pruned()
    return pruned
