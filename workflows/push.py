"""PushWorkflow: a revision for each branch that has moved. Started by the schedule `push`."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.push import (
        BUILD_PUSHED,
        FIND_FOLLOWERS,
        LOOK_AT_BRANCHES,
        PUSH_WORKFLOW,
        FollowBranches,
        FollowedBranches,
        LookAtBranches,
    )

_STEP = timedelta(seconds=60)
_RETRY = RetryPolicy(maximum_attempts=3)
# A listener that is away is asked again by the next firing.
_LISTENER_AWAY = timedelta(seconds=20)


@workflow.defn(name=PUSH_WORKFLOW, failure_exception_types=[Exception])
class PushWorkflow:
    """Each listener looks at the branches of its deployments; then what has moved is built."""

    @workflow.run
    async def run(self, follow: FollowBranches) -> FollowedBranches:
        listeners: list[str] = await workflow.execute_activity(
            FIND_FOLLOWERS, result_type=list[str], start_to_close_timeout=_STEP, retry_policy=_RETRY
        )
        read = await asyncio.gather(*(_look(listener_id, follow) for listener_id in listeners))
        built: int = await workflow.execute_activity(
            BUILD_PUSHED, result_type=int, start_to_close_timeout=_STEP, retry_policy=_RETRY
        )
        return FollowedBranches(sum(read), built)


async def _look(listener_id: str, follow: FollowBranches) -> int:
    try:
        read: int = await workflow.execute_activity(
            LOOK_AT_BRANCHES,
            LookAtBranches(listener_id, follow.retry_seconds),
            result_type=int,
            task_queue=names.listener_queue(listener_id),
            schedule_to_start_timeout=_LISTENER_AWAY,
            start_to_close_timeout=timedelta(minutes=10),
            heartbeat_timeout=timedelta(seconds=20),
            retry_policy=RetryPolicy(maximum_attempts=1),
            summary=f"Look at branches from listener {listener_id}",
        )
    except ActivityError as error:
        workflow.logger.warning(
            "branches_not_read", extra={"listener_id": listener_id, "cause": str(error.cause)}
        )
        return 0
    return read
