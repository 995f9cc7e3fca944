"""Schedules of the platform's own recurring work."""

from datetime import timedelta
from typing import Any

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)

from workflows.messages import names


async def ensure_schedule(
    client: Client, schedule_id: str, workflow: str, argument: Any, interval: timedelta, summary: str
) -> None:
    """Make a schedule that never runs its workflow twice at once, or bring the one that exists to this interval.

    Operators may pause and trigger it; that stays as they left it.
    """
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            workflow,
            argument,
            id=schedule_id,
            task_queue=names.PLATFORM_QUEUE,
            execution_timeout=timedelta(hours=1),
            static_summary=summary,
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=1)),
    )
    try:
        await client.create_schedule(schedule_id, schedule)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(schedule_id).update(
            lambda known: ScheduleUpdate(
                Schedule(schedule.action, schedule.spec, schedule.policy, known.description.schedule.state)
            )
        )
