"""Reading and deleting runs (trace contract §5.5)."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body
from pydantic import BaseModel, Field

from api.authentication import CurrentCaller
from api.errors import BadRequestError, NotFoundError
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.deletion import delete_runs, delete_traces
from api.traces.reading import bounded_reading
from api.traces.run_query import (
    RunQueryBody,
    conditions_of,
    cursors,
    to_query,
)
from api.traces.run_shape import shape_run
from storage.traces.runs import children_of, get_run, query_runs

router = APIRouter(tags=["traces"])


@router.post("/runs/query")
async def query(
    body: Annotated[RunQueryBody, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Runs that match every given condition, newest first, a page at a time."""
    wanted = to_query(body)
    children = None
    async with bounded_reading(services) as connection:
        page = await query_runs(connection, caller.tenant_id, wanted)
        if body.select and "child_run_ids" in body.select:
            children = await children_of(connection, caller.tenant_id, [row["trace_id"] for row in page.rows])
    answer: dict[str, Any] = {
        "runs": [shape_run(services, row, children) for row in page.rows],
        "cursors": cursors(page, wanted),
        "parsed_query": body.filter,
    }
    return JsonAnswer(answer)


@router.post("/runs/query/validate")
async def validate_query(body: Annotated[RunQueryBody, Body()], caller: CurrentCaller) -> dict[str, Any]:
    """Whether the filters of a query can be understood, and if not, where and why."""
    try:
        list(conditions_of(body))
    except BadRequestError as error:
        return {"valid": False, "errors": [error.detail]}
    return {"valid": True, "errors": []}


class RunsDeletion(BaseModel):
    """Runs of one project, or whole traces, to delete."""

    session_id: UUID | None = None
    run_ids: Annotated[list[UUID], Field(max_length=1_000)] = []
    trace_ids: Annotated[list[UUID], Field(max_length=1_000)] = []


@router.post("/runs/delete", status_code=202)
async def delete(
    body: Annotated[RunsDeletion, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Delete runs with their attachments and feedback, and the traces that are named, whole."""
    deleted = await delete_runs(services, caller.tenant_id, body.run_ids)
    deleted += await delete_traces(services, caller.tenant_id, body.trace_ids)
    return JsonAnswer({"deleted": deleted}, 202)


@router.post("/runs/delete/traces", status_code=202)
async def delete_whole_traces(
    body: Annotated[RunsDeletion, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Delete every run of the traces, with attachments and feedback."""
    return JsonAnswer({"deleted": await delete_traces(services, caller.tenant_id, body.trace_ids)}, 202)


@router.get("/runs/{run_id}")
async def read_run(run_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """One run with everything."""
    async with services.database.connection() as connection:
        row = await get_run(connection, caller.tenant_id, run_id)
    if row is None:
        raise NotFoundError(f"Run {run_id} not found.")
    return JsonAnswer(shape_run(services, row))
