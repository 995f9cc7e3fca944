"""What the agent server asks of Temporal beyond runs."""

import asyncio
from datetime import timedelta

from temporalio.client import WorkflowFailureError

from api.gateway import TemporalGateway, mapped
from workflows.messages import names
from workflows.messages.revision import STATE_UPDATE_WORKFLOW, StateUpdate, StateUpdateOutcome


async def execute_state_update(gateway: TemporalGateway, update: StateUpdate) -> str:
    """Have a revision's worker write to a thread's state; how that ended, within the update's bounds.

    Raises:
        UnavailableError: Temporal cannot be reached.
    """
    bound = timedelta(seconds=update.wait_seconds + update.execute_seconds + 5)
    try:
        async with asyncio.timeout(bound.total_seconds()):
            return await mapped(
                gateway.client.execute_workflow(
                    STATE_UPDATE_WORKFLOW,
                    update,
                    id=names.state_update_workflow_id(update.update_id),
                    task_queue=names.PLATFORM_QUEUE,
                    result_type=str,
                    execution_timeout=bound,
                    static_summary=f"State of thread {update.thread_id}",
                )
            )
    except (TimeoutError, WorkflowFailureError):
        return StateUpdateOutcome.FAILED
