"""Messages that the API and activities send in one and the same way. Only for clients, never in a workflow."""

from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)

from workflows.messages import names, search_attributes
from workflows.messages.lane import LANE_WORKFLOW, LaneInput, LaneRun
from workflows.messages.revision import StateUpdate
from workflows.messages.rollout import ROLLOUT_WORKFLOW, RolloutInput
from workflows.messages.thread import SUBMIT_SIGNAL, THREAD_WORKFLOW, UPDATE_SIGNAL, Run, ThreadInput

_RPC_TIMEOUT = timedelta(seconds=5)


async def submit_run(client: Client, thread: ThreadInput, run: Run) -> None:
    """Put a run at the end of its thread's queue; starts the thread's workflow if it sleeps."""
    await _signal_thread(client, thread, SUBMIT_SIGNAL, run)


async def submit_state_update(client: Client, thread: ThreadInput, update: StateUpdate) -> None:
    """Put a state update before the runs that its thread receives from now on; starts its workflow if it sleeps."""
    await _signal_thread(client, thread, UPDATE_SIGNAL, update)


async def _signal_thread(
    client: Client, thread: ThreadInput, signal: str, message: Run | StateUpdate
) -> None:
    await client.start_workflow(
        THREAD_WORKFLOW,
        thread,
        id=names.thread_workflow_id(thread.thread_id),
        task_queue=names.PLATFORM_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=signal,
        start_signal_args=[message],
        static_summary=f"Runs of thread {thread.thread_id}",
        search_attributes=owned_by(thread.tenant_id, thread.deployment_id),
        rpc_timeout=_RPC_TIMEOUT,
    )


async def tell_deployment(client: Client, rollout: RolloutInput, signal: str | None, message: Any) -> None:
    """Signal a deployment's workflow, which is started if it does not run. Called inside the transaction that writes
    the rows that the message is about, so that neither exists alone."""
    await client.start_workflow(
        ROLLOUT_WORKFLOW,
        rollout,
        id=names.rollout_workflow_id(rollout.deployment_id),
        task_queue=names.PLATFORM_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=signal,
        start_signal_args=[message] if signal else [],
        static_summary=f"Deployment {rollout.name}",
        rpc_timeout=_RPC_TIMEOUT,
    )


async def submit_lane_run(client: Client, lane: LaneInput, number: int, run: LaneRun) -> None:
    """Give a stateless run to one of its deployment's lanes; starts the lane if it sleeps."""
    await client.start_workflow(
        LANE_WORKFLOW,
        lane,
        id=names.lane_workflow_id(lane.deployment_id, number),
        task_queue=names.PLATFORM_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=SUBMIT_SIGNAL,
        start_signal_args=[run],
        static_summary=f"Stateless runs of deployment {lane.deployment_id}",
        search_attributes=owned_by(lane.tenant_id, lane.deployment_id),
        rpc_timeout=_RPC_TIMEOUT,
    )


def owned_by(tenant_id: str, deployment_id: str) -> TypedSearchAttributes:
    """Search attributes by which operators find a workspace's and a deployment's workflows."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(search_attributes.TENANT), tenant_id),
            SearchAttributePair(SearchAttributeKey.for_keyword(search_attributes.DEPLOYMENT), deployment_id),
        ]
    )
