"""Crons as Temporal Schedules (docs/architecture/crons.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import TypedSearchAttributes

from api.agent_server.cron_schedule import Calendar
from api.gateway import RPC_TIMEOUT, TemporalGateway, WorkflowNotFoundError, mapped
from workflows.messages import names
from workflows.messages.cron import CRON_WORKFLOW, CronInput
from workflows.messages.submission import owned_by

# After an outage, the firings of so long a time are made up for; older ones are past their use.
_CATCHUP_WINDOW = timedelta(hours=1)


@dataclass(frozen=True)
class CronSchedule:
    """When a cron fires."""

    cron: CronInput
    calendars: list[Calendar]
    timezone: str | None
    end_time: datetime | None
    enabled: bool


class CronGateway:
    """Every method raises `UnavailableError` (503) when Temporal cannot be reached."""

    def __init__(self, gateway: TemporalGateway) -> None:
        self._client = gateway.client

    async def create(self, schedule: CronSchedule) -> datetime | None:
        """Make the schedule; answers when it fires next."""
        handle = await mapped(
            self._client.create_schedule(
                names.cron_schedule_id(schedule.cron.cron_id),
                _schedule(schedule),
                search_attributes=_owner(schedule),
                rpc_timeout=RPC_TIMEOUT,
            )
        )
        return await self._next(handle)

    async def update(self, schedule: CronSchedule) -> datetime | None:
        """Replace the schedule, or make it again if it is gone; answers when it fires next."""
        handle = self._client.get_schedule_handle(names.cron_schedule_id(schedule.cron.cron_id))

        async def replace(_: ScheduleUpdateInput) -> ScheduleUpdate:
            return ScheduleUpdate(schedule=_schedule(schedule))

        try:
            await mapped(handle.update(replace, rpc_timeout=RPC_TIMEOUT))
        except WorkflowNotFoundError:
            return await self.create(schedule)
        return await self._next(handle)

    async def delete(self, cron_id: str) -> None:
        """Deleting what is gone changes nothing."""
        handle = self._client.get_schedule_handle(names.cron_schedule_id(cron_id))
        try:
            await mapped(handle.delete(rpc_timeout=RPC_TIMEOUT))
        except WorkflowNotFoundError:
            return

    async def _next(self, handle: ScheduleHandle) -> datetime | None:
        description = await mapped(handle.describe(rpc_timeout=RPC_TIMEOUT))
        if description.schedule.state.paused:
            return None
        return next(iter(description.info.next_action_times), None)


def _schedule(schedule: CronSchedule) -> Schedule:
    cron = schedule.cron
    return Schedule(
        action=ScheduleActionStartWorkflow(
            CRON_WORKFLOW,
            cron,
            id=f"cron/{cron.cron_id}",
            task_queue=names.PLATFORM_QUEUE,
            static_summary=f"Firing of cron {cron.cron_id}",
            typed_search_attributes=_owner(schedule),
        ),
        spec=ScheduleSpec(
            calendars=[_calendar(calendar) for calendar in schedule.calendars],
            time_zone_name=schedule.timezone,
            end_at=schedule.end_time,
        ),
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.ALLOW_ALL,
            catchup_window=_CATCHUP_WINDOW,
        ),
        state=ScheduleState(paused=not schedule.enabled, note=None if schedule.enabled else "disabled"),
    )


def _calendar(calendar: Calendar) -> ScheduleCalendarSpec:
    return ScheduleCalendarSpec(
        second=_ranges(calendar.second),
        minute=_ranges(calendar.minute),
        hour=_ranges(calendar.hour),
        day_of_month=_ranges(calendar.day_of_month),
        month=_ranges(calendar.month),
        day_of_week=_ranges(calendar.day_of_week),
    )


def _ranges(values: Sequence[int]) -> list[ScheduleRange]:
    """Runs of consecutive values."""
    ranges: list[ScheduleRange] = []
    for value in values:
        if ranges and ranges[-1].end == value - 1:
            ranges[-1] = ScheduleRange(ranges[-1].start, value)
        else:
            ranges.append(ScheduleRange(value, value))
    return ranges


def _owner(schedule: CronSchedule) -> TypedSearchAttributes:
    return owned_by(schedule.cron.tenant_id, schedule.cron.deployment_id)
