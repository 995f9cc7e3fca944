"""Messages of the delivery of a run's webhook."""

from dataclasses import dataclass

WEBHOOK_WORKFLOW = "webhook"
# Executed by platform workers.
DELIVER_WEBHOOK = "deliver_webhook"


@dataclass(frozen=True)
class DeliverWebhook:
    """Tell a run's webhook that the run has ended. Where to, and what, lies in the database."""

    thread_id: str
    run_id: str


@dataclass(frozen=True)
class WebhookDelivery:
    """`refused`: why nothing more is tried; None once it was delivered, or if there was nothing to tell."""

    refused: str | None = None
