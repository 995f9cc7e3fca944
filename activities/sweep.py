"""Deleting what has expired, and the schedule that starts it."""

from datetime import timedelta

from temporalio import activity
from temporalio.client import Client

from activities.disconnect import cancel_unwatched_runs
from activities.schedules import ensure_schedule
from settings import Settings
from storage.database import Database
from storage.sweeps import (
    Sweeper,
    sweep_revision_calls,
    sweep_state_updates,
    sweep_store_items,
    sweep_thread_events,
    sweep_threads,
    sweep_webhook_deliveries,
)
from workflows.messages.sweep import (
    SWEEP_BATCH,
    SWEEP_SCHEDULE,
    SWEEP_WORKFLOW,
    Sweep,
    SweepBatch,
    SweepInput,
    Swept,
)


class SweepActivities:
    """One batch at a time; repeating one finds what is left."""

    def __init__(self, database: Database, client: Client, settings: Settings) -> None:
        self._database = database
        self._sweepers: dict[str, Sweeper] = {
            Sweep.THREADS: sweep_threads,
            Sweep.THREAD_EVENTS: lambda database: sweep_thread_events(
                database, settings.event_retention_hours
            ),
            Sweep.STATE_UPDATES: sweep_state_updates,
            Sweep.STORE_ITEMS: sweep_store_items,
            Sweep.REVISION_CALLS: sweep_revision_calls,
            Sweep.WEBHOOK_DELIVERIES: sweep_webhook_deliveries,
            Sweep.RUN_WATCHERS: lambda database: cancel_unwatched_runs(database, client),
        }

    @activity.defn(name=SWEEP_BATCH)
    async def sweep(self, batch: SweepBatch) -> Swept:
        rows, more = await self._sweepers[batch.kind](self._database)
        return Swept(rows, more)


async def ensure_sweep_schedule(client: Client, interval: timedelta) -> None:
    """Make the schedule, or bring the one that exists to this interval; operators may pause and trigger it."""
    await ensure_schedule(
        client, SWEEP_SCHEDULE, SWEEP_WORKFLOW, SweepInput(), interval, "Deletes what has expired"
    )
