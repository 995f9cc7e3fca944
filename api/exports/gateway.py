"""Exports in Temporal: their workflows and their schedules."""

import math
from datetime import UTC, datetime, timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from api.gateway import RPC_TIMEOUT, TemporalGateway, WorkflowNotFoundError, mapped
from workflows.messages import names
from workflows.messages.export import CANCEL_EXPORT_SIGNAL, EXPORT_WORKFLOW, ExportInput
from workflows.messages.export_schedule import (
    BACKFILL_WORKFLOW,
    CANCEL_BACKFILL_SIGNAL,
    SPAWN_WORKFLOW,
    Backfill,
    ScheduledExport,
    Windows,
)

# However long the service was away, the windows that came due meanwhile are exported afterwards.
_CATCHUP = timedelta(days=3650)


class ExportGateway:
    """Every method raises `UnavailableError` (503) when Temporal cannot be reached within 5 s."""

    def __init__(self, gateway: TemporalGateway) -> None:
        self._client: Client = gateway.client

    async def start(self, export: ExportInput, summary: str) -> None:
        """Start an export's workflow; once for each export."""
        await mapped(
            self._client.start_workflow(
                EXPORT_WORKFLOW,
                export,
                id=names.export_workflow_id(export.export_id),
                task_queue=names.PLATFORM_QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                static_summary=summary[:200],
                rpc_timeout=RPC_TIMEOUT,
            )
        )

    async def cancel(self, export_id: str) -> None:
        """Ask an export to stop; nothing to do if its workflow has ended."""
        await self._signal(names.export_workflow_id(export_id), CANCEL_EXPORT_SIGNAL)

    async def create_schedule(self, export: ScheduledExport, summary: str) -> None:
        """Spawn an export for each window from `export.first_window` on as it comes due, and the others now."""
        await mapped(
            self._client.create_schedule(
                names.export_schedule_id(export.schedule_id),
                Schedule(
                    action=ScheduleActionStartWorkflow(
                        SPAWN_WORKFLOW,
                        export,
                        id=names.export_window_workflow_id(export.schedule_id),
                        task_queue=names.PLATFORM_QUEUE,
                        static_summary=summary[:200],
                    ),
                    spec=_spec(export.windows, export.first_window),
                    policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL, catchup_window=_CATCHUP),
                    state=ScheduleState(note=summary),
                ),
                rpc_timeout=RPC_TIMEOUT,
            )
        )
        if export.first_window > 0:
            await mapped(
                self._client.start_workflow(
                    BACKFILL_WORKFLOW,
                    Backfill(export, 0, export.first_window),
                    id=names.export_backfill_workflow_id(export.schedule_id),
                    task_queue=names.PLATFORM_QUEUE,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    static_summary=f"Past windows: {summary}"[:200],
                    rpc_timeout=RPC_TIMEOUT,
                )
            )

    async def delete_schedule(self, export_id: str) -> None:
        """No window is spawned any more, neither future nor past ones; nothing to do if that is so already."""
        try:
            handle = self._client.get_schedule_handle(names.export_schedule_id(export_id))
            await mapped(handle.delete(rpc_timeout=RPC_TIMEOUT))
        except WorkflowNotFoundError:
            pass
        await self._signal(names.export_backfill_workflow_id(export_id), CANCEL_BACKFILL_SIGNAL)

    async def _signal(self, workflow_id: str, signal: str) -> None:
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            await mapped(handle.signal(signal, rpc_timeout=RPC_TIMEOUT))
        except WorkflowNotFoundError:
            return


def _spec(windows: Windows, first_window: int) -> ScheduleSpec:
    """When windows are due. Schedules know whole seconds: a fraction of `start_time` is rounded up."""
    every = round(windows.interval_seconds)
    first_due = math.ceil(windows.due(first_window).timestamp())
    return ScheduleSpec(
        intervals=[ScheduleIntervalSpec(timedelta(seconds=every), timedelta(seconds=first_due % every))],
        start_at=datetime.fromtimestamp(first_due, UTC),
    )
