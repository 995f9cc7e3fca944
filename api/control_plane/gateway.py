"""What the control plane asks of Temporal: the workflows of deployments."""

from temporalio.common import WorkflowIDConflictPolicy

from api.gateway import RPC_TIMEOUT, TemporalGateway, mapped
from workflows.messages import names
from workflows.messages.rollout import (
    DELETE_DEPLOYMENT_SIGNAL,
    INTERRUPT_REVISION_SIGNAL,
    ROLLOUT_WORKFLOW,
    SUBMIT_REVISION_SIGNAL,
    DeleteDeployment,
    InterruptRevision,
    RolloutInput,
    SubmitRevision,
)

Message = SubmitRevision | InterruptRevision | DeleteDeployment
_SIGNALS: dict[type, str] = {
    SubmitRevision: SUBMIT_REVISION_SIGNAL,
    InterruptRevision: INTERRUPT_REVISION_SIGNAL,
    DeleteDeployment: DELETE_DEPLOYMENT_SIGNAL,
}


async def tell_deployment(gateway: TemporalGateway, rollout: RolloutInput, message: Message | None) -> None:
    """Hand a message to a deployment's workflow, which is started if it does not run.

    Called inside the transaction that writes the rows the message is about, so that neither exists alone.

    Raises:
        UnavailableError: Temporal cannot be reached; roll the transaction back.
    """
    await mapped(
        gateway.client.start_workflow(
            ROLLOUT_WORKFLOW,
            rollout,
            id=names.rollout_workflow_id(rollout.deployment_id),
            task_queue=names.PLATFORM_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=_SIGNALS[type(message)] if message else None,
            start_signal_args=[message] if message else [],
            static_summary=f"Deployment {rollout.name}",
            rpc_timeout=RPC_TIMEOUT,
        )
    )
