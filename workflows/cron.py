"""CronWorkflow: one firing of a cron (docs/architecture/crons.md)."""

from datetime import UTC, timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey

with workflow.unsafe.imports_passed_through():
    from workflows.messages.cron import CRON_WORKFLOW, FIRE_CRON, CronInput, FireCron, Firing

_SCHEDULED_AT = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")
# A firing that could not be stored for so long is given up: the next ones are due.
_GIVE_UP_AFTER = timedelta(hours=1)


@workflow.defn(name=CRON_WORKFLOW, failure_exception_types=[Exception])
class CronWorkflow:
    """Creates the run of one firing. Started by the cron's schedule, at the time that names the firing."""

    @workflow.run
    async def run(self, cron: CronInput) -> Firing:
        info = workflow.info()
        scheduled_at = info.typed_search_attributes.get(_SCHEDULED_AT) or info.start_time
        firing: Firing = await workflow.execute_activity(
            FIRE_CRON,
            FireCron(cron, scheduled_at.astimezone(UTC).isoformat()),
            result_type=Firing,
            start_to_close_timeout=timedelta(seconds=30),
            schedule_to_close_timeout=_GIVE_UP_AFTER,
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=10)),
            summary=f"Run of {scheduled_at:%Y-%m-%d %H:%M:%S}",
        )
        return firing
