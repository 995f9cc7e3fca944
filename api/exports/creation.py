"""Creating an export, exactly once (docs/architecture/exports.md)."""

from datetime import UTC, datetime, timedelta

from api.authentication import Caller
from api.errors import BadRequestError, NotFoundError, TooManyRequestsError
from api.exports.gateway import ExportGateway
from api.exports.plan import require_export_plan
from api.exports.schemas import ExportCreate
from api.services import Services
from settings import Settings
from storage.database import Connection
from storage.destinations import Destinations
from storage.export_filter import FilterError, compile_condition
from storage.export_rows import find_projects
from storage.exports import Export, Exports, NewExport
from storage.ids import new_id
from workflows.messages.export import ExportInput, ExportPolicy
from workflows.messages.export_schedule import ScheduledExport, Windows

# Windows that come due while a schedule is being created are its backfill's, so that none falls between.
_SEAM = timedelta(seconds=60)
_MAX_AHEAD = timedelta(days=366)
_MAX_PAST_WINDOWS = 10_000
# A commit that comes later than this after the workflow's start fails, so that the workflow, which waits longer
# for the row, can tell a row that is late from one that never comes.
_IDLE_LIMIT = "SET LOCAL idle_in_transaction_session_timeout = '15s'"


async def create_export(services: Services, caller: Caller, body: ExportCreate) -> Export:
    """Store an export and start its workflow: both, or neither.

    Should the commit fail after the start, the workflow finds no row and ends.

    Raises:
        ForbiddenError: the workspace's plan does not include exports.
        BadRequestError: fields that contradict each other, or a filter that cannot be understood.
        NotFoundError: no such destination or project.
        TooManyRequestsError: a limit of the workspace is reached.
        UnavailableError: Temporal or PostgreSQL is away; nothing was stored.
    """
    require_export_plan(caller)
    _require_consistent(body)
    export = _new_export(body)
    async with services.database.transaction() as connection:
        await connection.execute(_IDLE_LIMIT)
        await _require_known(connection, caller, body)
        exports = Exports(connection, caller.tenant_id)
        await exports.hold_limits()
        await _require_within_limits(exports, services.settings, scheduled=body.interval_hours is not None)
        await exports.create(export)
        if export.interval_hours is not None:
            await exports.start(export.id)  # an active schedule is RUNNING
        await _start(services, caller, export)
        created = await exports.get(export.id)
        assert created is not None
    return created


async def _start(services: Services, caller: Caller, export: NewExport) -> None:
    gateway = ExportGateway(services.gateway)
    tenant_id, export_id, policy = str(caller.tenant_id), str(export.id), export_policy(services.settings)
    if export.interval_hours is None:
        await gateway.start(ExportInput(tenant_id, export_id, policy), _summary(export))
        return
    windows = Windows(export.start_time.isoformat(), export.interval_hours * 3600.0)
    first_window = max(windows.last_due(datetime.now(UTC) + _SEAM) + 1, 0)
    scheduled = ScheduledExport(tenant_id, export_id, windows, first_window, policy)
    await gateway.create_schedule(scheduled, _summary(export))


def export_policy(settings: Settings) -> ExportPolicy:
    """Bounds of an export that is created now."""
    return ExportPolicy(timeout_seconds=settings.export_timeout_seconds, window=settings.export_window)


def _require_consistent(body: ExportCreate) -> None:
    if (body.session_id is not None) == body.all_experiments:
        raise BadRequestError("Set exactly one of session_id and all_experiments.")
    if body.interval_hours is not None and body.end_time is not None:
        raise BadRequestError(
            "A scheduled export must not have an end_time: leave out end_time or interval_hours."
        )
    if body.interval_hours is None and body.end_time is None:
        raise BadRequestError("A one-time export needs an end_time; a scheduled one needs interval_hours.")
    if body.end_time is not None and body.end_time <= body.start_time:
        raise BadRequestError(
            f"end_time ({body.end_time.isoformat()}) must be later than start_time ({body.start_time.isoformat()})."
        )
    if body.interval_hours is not None:
        _require_reasonable_start(body.start_time, body.interval_hours)
    try:
        compile_condition(body.filter)
    except FilterError as error:
        raise BadRequestError(f"Invalid filter: {error}") from error


def _require_reasonable_start(start_time: datetime, interval_hours: int) -> None:
    now = datetime.now(UTC)
    if start_time > now + _MAX_AHEAD:
        raise BadRequestError("start_time of a scheduled export must lie at most a year ahead.")
    past = int((now - start_time) // timedelta(hours=interval_hours))
    if past > _MAX_PAST_WINDOWS:
        raise BadRequestError(
            f"{past} windows have passed since start_time, more than the {_MAX_PAST_WINDOWS} that are exported"
            " afterwards: choose a later start_time or a longer interval_hours."
        )


async def _require_known(connection: Connection, caller: Caller, body: ExportCreate) -> None:
    destination_id = body.bulk_export_destination_id
    if await Destinations(connection, caller.tenant_id).get(destination_id, hold=True) is None:
        raise NotFoundError(f"Destination ID {destination_id} not found.")
    if body.session_id and not await find_projects(connection, caller.tenant_id, body.session_id, 1):
        raise NotFoundError(f"Session ID {body.session_id} not found.")


async def _require_within_limits(exports: Exports, settings: Settings, *, scheduled: bool) -> None:
    limit = settings.export_creations_per_hour
    if limit is not None and await exports.count_created_within_hour() >= limit:
        raise TooManyRequestsError(
            f"The workspace has created {limit} exports within the last 60 minutes, the most that are allowed."
        )
    limit = settings.export_active_schedules
    if scheduled and limit is not None and await exports.count_active_schedules() >= limit:
        raise TooManyRequestsError(
            f"The workspace has {limit} active scheduled exports, the most that are allowed: cancel one first."
        )


def _new_export(body: ExportCreate) -> NewExport:
    return NewExport(
        id=new_id(),
        destination_id=body.bulk_export_destination_id,
        session_id=body.session_id,
        all_experiments=body.all_experiments,
        start_time=body.start_time,
        end_time=body.end_time,
        filter=body.filter,
        format_version=body.format_version,
        compression=body.compression,
        interval_hours=body.interval_hours,
        export_fields=body.export_fields,
    )


def _summary(export: NewExport) -> str:
    what = f"project {export.session_id}" if export.session_id else "all experiments"
    if export.end_time is None:
        return f"Every {export.interval_hours} h: export of {what}, from {export.start_time:%Y-%m-%d %H:%M} UTC on"
    return f"Export of {what}, {export.start_time:%Y-%m-%d %H:%M} to {export.end_time:%Y-%m-%d %H:%M} UTC"
