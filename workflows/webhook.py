"""WebhookWorkflow: tells one webhook that its run has ended (docs/architecture/webhooks.md)."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names
    from workflows.messages.webhook import DELIVER_WEBHOOK, WEBHOOK_WORKFLOW, DeliverWebhook, WebhookDelivery

# After a second, then three times as long each time, ten minutes at most: an hour and a half in all.
_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=3.0,
    maximum_interval=timedelta(minutes=10),
    maximum_attempts=15,
)


@workflow.defn(name=WEBHOOK_WORKFLOW, failure_exception_types=[Exception])
class WebhookWorkflow:
    """Attempts until the receiver takes it, refuses it for good, or has been away for too long."""

    @workflow.run
    async def run(self, delivery: DeliverWebhook) -> WebhookDelivery:
        result: WebhookDelivery = await workflow.execute_activity(
            DELIVER_WEBHOOK,
            delivery,
            result_type=WebhookDelivery,
            task_queue=names.PLATFORM_QUEUE,
            start_to_close_timeout=timedelta(seconds=60),
            retry_policy=_RETRIES,
            summary=f"Webhook of run {delivery.run_id}",
        )
        return result


async def announce_end(delivery: DeliverWebhook) -> None:
    """Start the delivery, once per run, without waiting for it. For workflows that carry runs."""
    try:
        await workflow.start_child_workflow(
            WEBHOOK_WORKFLOW,
            delivery,
            id=names.webhook_workflow_id(delivery.run_id),
            task_queue=names.PLATFORM_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=f"Webhook of run {delivery.run_id}",
        )
    except WorkflowAlreadyStartedError:
        return
