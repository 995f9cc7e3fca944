"""Retention of traces: one batch at a time; repeating one finds what is left."""

from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import Client

from activities.schedules import ensure_schedule
from settings import Settings
from storage.database import Database
from storage.objects import ObjectStore
from storage.traces.deletion import doomed_objects, forget_objects
from storage.traces.partitions import ensure_partitions
from storage.traces.retention import (
    delete_expired_runs,
    delete_runs_of_deleted_projects,
    drop_empty_partitions,
)
from workflows.messages.trace_retention import (
    TRACE_RETENTION_BATCH,
    TRACE_RETENTION_SCHEDULE,
    TRACE_RETENTION_WORKFLOW,
    TraceRetention,
    TraceRetentionBatch,
    TraceRetentionInput,
    TraceRetentionResult,
)

_OBJECTS = 200


class TraceRetentionActivities:
    """Deletes what has expired: rows first, then the objects that only they referred to."""

    def __init__(self, database: Database, objects: ObjectStore, settings: Settings) -> None:
        self._database = database
        self._objects = objects
        self._kept = {
            TraceRetention.SHORTLIVED_RUNS: ("shortlived", timedelta(days=settings.trace_shortlived_days)),
            TraceRetention.LONGLIVED_RUNS: ("longlived", timedelta(days=settings.trace_longlived_days)),
        }

    @activity.defn(name=TRACE_RETENTION_BATCH)
    async def work(self, batch: TraceRetentionBatch) -> TraceRetentionResult:
        kind = TraceRetention(batch.kind)
        if kind == TraceRetention.PARTITIONS:
            return await self._keep_partitions()
        if kind == TraceRetention.OBJECTS:
            return await self._delete_objects()
        async with self._database.transaction() as connection:
            if kind == TraceRetention.DELETED_PROJECTS:
                count, _ = await delete_runs_of_deleted_projects(connection)
            else:
                tier, kept = self._kept[kind]
                count, _ = await delete_expired_runs(connection, tier, datetime.now(UTC) - kept)
        return TraceRetentionResult(count, more=count > 0)

    async def _keep_partitions(self) -> TraceRetentionResult:
        """The coming month's partition before its first run comes; empty ones beyond every retention go."""
        now = datetime.now(UTC)
        await ensure_partitions(self._database, [now, now + timedelta(days=31)])
        oldest = now - max(kept for _, kept in self._kept.values()) - timedelta(days=31)
        async with self._database.transaction() as connection:
            return TraceRetentionResult(await drop_empty_partitions(connection, oldest), more=False)

    async def _delete_objects(self) -> TraceRetentionResult:
        async with self._database.connection() as connection:
            keys = await doomed_objects(connection, _OBJECTS)
            for key in keys:
                await self._objects.delete(key)
            await forget_objects(connection, keys)
        return TraceRetentionResult(len(keys), more=len(keys) == _OBJECTS)


async def ensure_trace_retention_schedule(client: Client, interval: timedelta) -> None:
    """Make the schedule, or bring the one that exists to this interval; operators may pause and trigger it."""
    await ensure_schedule(
        client,
        TRACE_RETENTION_SCHEDULE,
        TRACE_RETENTION_WORKFLOW,
        TraceRetentionInput(),
        interval,
        "Deletes expired traces and those of deleted projects",
    )
