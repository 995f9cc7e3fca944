"""Runs: a page of them, and one (trace contract §5.5)."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import BaseModel, Field, field_validator

from api.authentication import CurrentCaller
from api.errors import BadRequestError, NotFoundError
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
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
from storage.project_lists import ProjectQuery, list_projects
from storage.traces.changes import RunType
from storage.traces.runs import RunQuery, query_runs

router = APIRouter(prefix="/runs", tags=["traces v2"], route_class=ProblemRoute, responses=PROBLEMS)


class RunsQuery(Window):
    """Conditions on runs, all of which must hold, and the page."""

    project_ids: Ids | None = None
    reference_dataset_id: UUID | None = None
    ids: Ids | None = None
    trace_id: UUID | None = None
    reference_examples: Ids | None = None
    run_type: RunType | None = None
    is_root: bool | None = None
    has_error: bool | None = None
    filter: str | None = None
    trace_filter: str | None = None
    tree_filter: str | None = None
    min_feedback_modified_at: datetime | None = None
    max_feedback_modified_at: datetime | None = None
    include_subtree_usage: bool = False
    selects: Selects | None = None
    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=1_000)] = 100

    @field_validator("run_type", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value


@router.post("/query", summary="Query runs")
async def query(
    request: Request,
    body: Annotated[RunsQuery, Body()],
    services: CurrentServices,
    caller: CurrentCaller,
) -> Response:
    """Runs of projects, or of all experiments on a dataset, newest first, with the fields that `selects` names."""
    body.refuse_what_is_not_offered()
    if body.min_feedback_modified_at or body.max_feedback_modified_at:
        raise NotOfferedError("Bounds on the time of feedback are not offered here; filter by start_time.")
    if (body.project_ids is None) == (body.reference_dataset_id is None):
        raise BadRequestError("Give exactly one of project_ids and reference_dataset_id.")
    selects = read_selects(body.selects)
    after = read_cursor(body.cursor, datetime, UUID)
    wanted = RunQuery(
        run_ids=body.ids,
        trace_id=body.trace_id,
        reference_example_ids=body.reference_examples,
        run_type=body.run_type,
        is_root=body.is_root,
        has_error=body.has_error,
        conditions=list(conditions_of(_filters(body))),
        after=(after[0], after[1]) if after else None,
        limit=body.page_size,
        documents=documents_of(selects),
    )
    async with bounded_reading(services) as connection:
        wanted.start_time, wanted.before = body.bounds()
        if body.reference_dataset_id is not None:
            experiments = await list_projects(
                connection,
                caller.tenant_id,
                ProjectQuery(reference_dataset_ids=[body.reference_dataset_id], limit=1_000),
            )
            wanted.session_ids = [row["id"] for row in experiments]
            if body.min_start_time is None:
                wanted.start_time = min((row["start_time"] for row in experiments), default=wanted.start_time)
        else:
            assert body.project_ids is not None
            await require_projects(connection, caller.tenant_id, body.project_ids)
            wanted.session_ids = body.project_ids
        page = await query_runs(connection, caller.tenant_id, wanted)
        items = await shape_runs(
            services,
            connection,
            caller.tenant_id,
            page.rows,
            selects,
            of_subtree=body.include_subtree_usage,
        )
    last = page.rows[-1] if page.more else None
    return page_answer(request, items, write_cursor(last["start_time"], last["id"]) if last else None)


def _filters(body: BaseModel) -> RunFilters:
    return RunFilters(**body.model_dump(include={"filter", "trace_filter", "tree_filter"}))


@router.get("/{run_id}", summary="Read a run")
async def read(
    run_id: UUID,
    project_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    selects: Annotated[list[str] | None, Query(max_length=200)] = None,
    start_time: datetime | None = None,
) -> JsonAnswer:
    """One run of a project. `start_time` is not needed: a run is found by its id."""
    asked = read_selects(selects)
    wanted = RunQuery(session_ids=[project_id], run_ids=[run_id], limit=1, documents=documents_of(asked))
    async with bounded_reading(services) as connection:
        page = await query_runs(connection, caller.tenant_id, wanted)
        if not page.rows:
            raise NotFoundError(f"Run {run_id} not found in project {project_id}.")
        items = await shape_runs(services, connection, caller.tenant_id, page.rows, asked)
    return JsonAnswer(items[0])


class RunUrl(BaseModel):
    url: str


@router.get("/{run_id}/url", summary="Address of a run")
async def read_url(
    run_id: UUID,
    project_id: UUID,
    trace_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    start_time: datetime | None = None,
) -> RunUrl:
    """Where the run is read: this installation has no page for single runs, but its API has every one."""
    async with services.database.connection() as connection:
        await require_projects(connection, caller.tenant_id, [project_id])
    return RunUrl(url=f"{services.settings.api_url}/api/v1/runs/{run_id}")
