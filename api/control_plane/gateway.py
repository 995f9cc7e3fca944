"""What the control plane asks of Temporal: the workflows of deployments."""

from api.gateway import TemporalGateway, mapped
from workflows.messages import submission
from workflows.messages.rollout import (
    DELETE_DEPLOYMENT_SIGNAL,
    INTERRUPT_REVISION_SIGNAL,
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
    signal = _SIGNALS[type(message)] if message else None
    await mapped(submission.tell_deployment(gateway.client, rollout, signal, message))
