"""Spawns the exports of a schedule's windows: one each, whoever asks, and however often."""

import asyncio
import time
from datetime import timedelta
from uuid import UUID, uuid5

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from storage.database import Connection, Database
from storage.exports import Export, Exports, NewExport
from workflows.messages import names
from workflows.messages.export import UNFINISHED
from workflows.messages.export_schedule import (
    DELETE_EXPORT_SCHEDULE,
    LIST_MISSING_WINDOWS,
    SPAWN_EXPORT,
    ListMissingWindows,
    MissingWindows,
    ScheduledExport,
    Spawned,
    SpawnExport,
)

# Longer than a creating transaction may stay idle (api.exports.creation), so no row can appear afterwards.
_ROW_WAIT_SECONDS = 30.0
_LIMIT_WAIT = timedelta(seconds=60)


class ExportScheduleActivities:
    """Records of scheduled exports. All idempotent."""

    def __init__(self, database: Database, client: Client, *, creations_per_hour: int | None = None) -> None:
        self._database = database
        self._client = client
        self._creations_per_hour = creations_per_hour

    @activity.defn(name=SPAWN_EXPORT)
    async def spawn(self, request: SpawnExport) -> Spawned:
        """Store the export of a window, with an id that follows from it.

        Waits, by being tried again, while the workspace has used up its creations of the hour: a window may be
        late, but none is left out.
        """
        scheduled = request.export
        deadline = time.monotonic() + _ROW_WAIT_SECONDS
        while True:
            async with self._database.transaction() as connection:
                exports = Exports(connection, UUID(scheduled.tenant_id))
                await exports.hold_limits()
                status = await exports.lock_status(UUID(scheduled.schedule_id))
                if status is not None:
                    if status not in UNFINISHED:
                        return Spawned(None, active=False)
                    return Spawned(str(await self._store(exports, request)))
            if time.monotonic() > deadline:
                return Spawned(None, found=False)
            await asyncio.sleep(0.1)

    @activity.defn(name=LIST_MISSING_WINDOWS)
    async def missing(self, request: ListMissingWindows) -> MissingWindows:
        """Windows of the schedule itself, not of its backfill, that have no export yet."""
        scheduled = request.export
        numbers = range(scheduled.first_window, request.last_window + 1)
        async with self._database.connection() as connection:
            spawned = await _spawned(connection, scheduled)
        missing = [number for number in numbers if scheduled.windows.bounds(number)[0] not in spawned]
        return MissingWindows(missing[: request.limit])

    @activity.defn(name=DELETE_EXPORT_SCHEDULE)
    async def delete_schedule(self, scheduled: ScheduledExport) -> None:
        """Remove the Temporal Schedule of an export whose creation was never committed."""
        handle = self._client.get_schedule_handle(names.export_schedule_id(scheduled.schedule_id))
        try:
            await handle.delete()
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise

    async def _store(self, exports: Exports, request: SpawnExport) -> UUID:
        schedule = await exports.get(UUID(request.export.schedule_id))
        assert schedule is not None
        export = _window_export(schedule, request)
        if await exports.get(export.id) is None:
            limit = self._creations_per_hour
            if limit is not None and await exports.count_created_within_hour() >= limit:
                raise ApplicationError(
                    f"The workspace may create {limit} exports within 60 minutes; waiting.",
                    type="CreationLimitReached",
                    next_retry_delay=_LIMIT_WAIT,
                )
            await exports.create(export)
        return export.id


async def _spawned(connection: Connection, scheduled: ScheduledExport) -> set[object]:
    exports = Exports(connection, UUID(scheduled.tenant_id))
    return set(await exports.spawned_start_times(UUID(scheduled.schedule_id)))


def _window_export(schedule: Export, request: SpawnExport) -> NewExport:
    start, end = request.export.windows.bounds(request.window)
    return NewExport(
        id=uuid5(schedule.id, start.isoformat()),
        destination_id=schedule.destination_id,
        session_id=schedule.session_id,
        all_experiments=schedule.all_experiments,
        start_time=start,
        end_time=end,
        filter=schedule.filter,
        format_version=schedule.format_version,
        compression=schedule.compression,
        interval_hours=None,
        export_fields=schedule.export_fields,
        source_export_id=schedule.id,
    )
