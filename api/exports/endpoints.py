"""Exports and their runs (bulk export contract §1.1, rows 1 to 7)."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from api.authentication import Caller, CurrentCaller
from api.errors import NotFoundError
from api.exports import destinations
from api.exports.cancellation import cancel_export
from api.exports.creation import create_export
from api.exports.runs import ExportRunResponse, run_response
from api.exports.schemas import ExportCreate, ExportResponse, ExportUpdate, export_response
from api.json_body import JsonRoute
from api.services import CurrentServices, Services
from storage.destinations import Destination, Destinations
from storage.export_runs import ExportRun, ExportRuns
from storage.exports import Export, Exports

router = APIRouter(prefix="/api/v1/bulk-exports", tags=["bulk exports"], route_class=JsonRoute)
router.include_router(destinations.router)

Limit = Annotated[int | None, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


@router.post("")
async def create(body: ExportCreate, caller: CurrentCaller, services: CurrentServices) -> ExportResponse:
    """Start an export, or with `interval_hours` a schedule of exports; poll it by its id."""
    return _answer(await create_export(services, caller, body))


@router.get("")
async def list_exports(
    caller: CurrentCaller, services: CurrentServices, limit: Limit = None, offset: Offset = 0
) -> list[ExportResponse]:
    """Newest first; without `limit` all."""
    async with services.database.connection() as connection:
        found = await Exports(connection, caller.tenant_id).page(limit, offset)
    return [_answer(export) for export in found]


@router.get("/runs")
async def list_schedule_runs(
    source_bulk_export_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    limit: Limit = None,
    offset: Offset = 0,
) -> list[ExportRunResponse]:
    """Runs of every export that a schedule has spawned, in order of their windows."""
    schedule = await _find(services, caller, source_bulk_export_id)
    async with services.database.connection() as connection:
        found = await ExportRuns(connection, caller.tenant_id).of_schedule(schedule.id, limit, offset)
    return await _runs(services, caller, schedule, found)


@router.get("/{export_id}")
async def get(export_id: UUID, caller: CurrentCaller, services: CurrentServices) -> ExportResponse:
    return _answer(await _find(services, caller, export_id))


@router.patch("/{export_id}")
async def update(
    export_id: UUID, caller: CurrentCaller, services: CurrentServices, body: ExportUpdate | None = None
) -> ExportResponse:
    """Cancel an export for good; 409 if it has ended otherwise. A schedule's spawned exports go on."""
    return _answer(await cancel_export(services, caller, export_id))


@router.get("/{export_id}/runs")
async def list_runs(
    export_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    limit: Limit = None,
    offset: Offset = 0,
) -> list[ExportRunResponse]:
    """One per project and UTC day, in order: together they cover exactly the export's window."""
    export = await _find(services, caller, export_id)
    async with services.database.connection() as connection:
        found = await ExportRuns(connection, caller.tenant_id).of_export(export_id, limit, offset)
    return await _runs(services, caller, export, found)


@router.get("/{export_id}/runs/{run_id}")
async def get_run(
    export_id: UUID, run_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> ExportRunResponse:
    export = await _find(services, caller, export_id)
    async with services.database.connection() as connection:
        found = await ExportRuns(connection, caller.tenant_id).get(export_id, run_id)
    if found is None:
        raise NotFoundError(f"Bulk export run ID {run_id} not found.")
    return (await _runs(services, caller, export, [found]))[0]


async def _find(services: Services, caller: Caller, export_id: UUID) -> Export:
    async with services.database.connection() as connection:
        found = await Exports(connection, caller.tenant_id).get(export_id)
    if found is None:
        raise NotFoundError(f"Bulk export ID {export_id} not found.")
    return found


async def _runs(
    services: Services, caller: Caller, export: Export, found: list[ExportRun]
) -> list[ExportRunResponse]:
    async with services.database.connection() as connection:
        destination = await Destinations(connection, caller.tenant_id).get(export.destination_id)
    assert isinstance(destination, Destination)
    return [run_response(run, destination) for run in found]


def _answer(export: Export) -> ExportResponse:
    return export_response(export, datetime.now(UTC))
