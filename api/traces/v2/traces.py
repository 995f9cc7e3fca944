"""Traces: their root runs with sums over the whole tree, and the runs of one (trace contract §5.5)."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import BaseModel, Field

from api.authentication import CurrentCaller
from api.errors import BadRequestError, TooLargeError
from api.services import CurrentServices
from api.traces.parameters import aware
from api.traces.reading import bounded_reading
from api.traces.run_query import RunFilters, conditions_of
from api.traces.v2.conditions import (
    Ids,
    Selects,
    Window,
    page_answer,
    read_cursor,
    require_projects,
    write_cursor,
)
from api.traces.v2.problems import PROBLEMS, NotOfferedError, ProblemRoute
from api.traces.v2.run_fields import documents_of, read_selects, shape_runs
from storage.traces.runs import RunQuery, first_tokens_of, query_runs

router = APIRouter(prefix="/traces", tags=["traces v2"], route_class=ProblemRoute, responses=PROBLEMS)

_OF_TRACE = ("TOTAL_TOKENS", "TOTAL_COST", "FIRST_TOKEN_TIME")
_RUNS = 1_000


class TracesQuery(Window):
    """Conditions on traces of one project, and the page. `trace_filter` speaks of the root run."""

    project_id: UUID
    trace_ids: Ids | None = None
    trace_filter: str | None = None
    tree_filter: str | None = None
    min_feedback_modified_at: datetime | None = None
    max_feedback_modified_at: datetime | None = None
    selects: Selects | None = None
    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=100)] = 20


@router.post("/query", summary="Query traces")
async def query(
    request: Request,
    body: Annotated[TracesQuery, Body()],
    services: CurrentServices,
    caller: CurrentCaller,
) -> Response:
    """Traces, newest first: `root_run`, and `trace_aggregates` where a sum over the trace is selected."""
    body.refuse_what_is_not_offered()
    if body.min_feedback_modified_at or body.max_feedback_modified_at:
        raise NotOfferedError("Bounds on the time of feedback are not offered here; filter by start_time.")
    asked = read_selects(body.selects)
    of_root = [name for name in asked if name not in _OF_TRACE] or ["ID"]
    of_trace = [name for name in asked if name in _OF_TRACE]
    after = read_cursor(body.cursor, datetime, UUID)
    filters = RunFilters(filter=body.trace_filter, tree_filter=body.tree_filter)
    start, before = body.bounds()
    wanted = RunQuery(
        session_ids=[body.project_id],
        run_ids=body.trace_ids,
        is_root=True,
        start_time=start,
        before=before,
        conditions=list(conditions_of(filters)),
        after=(after[0], after[1]) if after else None,
        limit=body.page_size,
        documents=documents_of(of_root),
    )
    async with bounded_reading(services) as connection:
        await require_projects(connection, caller.tenant_id, [body.project_id])
        page = await query_runs(connection, caller.tenant_id, wanted)
        roots = await shape_runs(services, connection, caller.tenant_id, page.rows, of_root)
        items: list[dict[str, Any]] = [{"root_run": root} for root in roots]
        if of_trace:
            sums = await shape_runs(
                services, connection, caller.tenant_id, page.rows, of_trace, of_subtree=True
            )
            for item, aggregates in zip(items, sums, strict=True):
                item["trace_aggregates"] = aggregates
        if "FIRST_TOKEN_TIME" in of_trace:
            trace_ids = [row["trace_id"] for row in page.rows]
            first = await first_tokens_of(connection, caller.tenant_id, trace_ids)
            for item, trace_id in zip(items, trace_ids, strict=True):
                item["trace_aggregates"]["first_token_time"] = first.get(trace_id)
    last = page.rows[-1] if page.more else None
    return page_answer(request, items, write_cursor(last["start_time"], last["id"]) if last else None)


class TraceRuns(BaseModel):
    items: list[dict[str, Any]]


@router.get("/{trace_id}/runs", summary="Runs of a trace", response_model=TraceRuns)
async def list_runs(
    request: Request,
    trace_id: UUID,
    project_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    filter: str | None = None,
    min_start_time: datetime | None = None,
    max_start_time: datetime | None = None,
    selects: Annotated[list[str] | None, Query(max_length=200)] = None,
) -> Response:
    """Runs of one trace in order of their start; 413 where one answer cannot hold them."""
    if (min_start_time is None) != (max_start_time is None):
        raise BadRequestError("Give both of min_start_time and max_start_time, or neither.")
    asked = read_selects(selects)
    wanted = RunQuery(
        session_ids=[project_id],
        trace_id=trace_id,
        start_time=aware(min_start_time),
        end_time=aware(max_start_time),
        conditions=list(conditions_of(RunFilters(filter=filter))),
        descending=False,
        limit=_RUNS,
        documents=documents_of(asked),
    )
    async with bounded_reading(services) as connection:
        await require_projects(connection, caller.tenant_id, [project_id])
        page = await query_runs(connection, caller.tenant_id, wanted)
        if page.more:
            raise TooLargeError(
                "The trace is more than one answer holds: narrow it by time, or select fewer fields."
            )
        items = await shape_runs(services, connection, caller.tenant_id, page.rows, asked)
    return page_answer(request, items, None)
