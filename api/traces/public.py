"""What a link shows to whoever has it: one dataset with its experiments, or one trace (trace contract §5.8)."""

from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field

from api.errors import NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices, Services
from api.traces.answers import JsonAnswer
from api.traces.dataset_lookup import require_dataset, resolve_as_of
from api.traces.examples import shape_example
from api.traces.parameters import MAX_PAGE, Limit, Offset
from api.traces.project_shape import shape_with_stats
from api.traces.reading import bounded_reading
from api.traces.run_query import TRACE_PAGE, RunQueryBody, cursors, read_cursor
from api.traces.run_shape import shape_run
from api.traces.text import is_clean
from api.traces.v2.problems import PROBLEMS, ProblemRoute
from api.traces.v2.run_fields import documents_of, read_selects, shape_runs
from storage.examples import ExampleQuery, count_examples, list_examples
from storage.project_lists import ProjectQuery, list_projects
from storage.public_links import find_link
from storage.traces.runs import RunQuery, query_runs

router = APIRouter(prefix="/public/{token}", tags=["public links"], route_class=JsonRoute)
v2_router = APIRouter(
    prefix="/public/{token}", tags=["traces v2"], route_class=ProblemRoute, responses=PROBLEMS
)

_NO_LINK = "No such link, or it was unshared."


@dataclass(frozen=True)
class _Link:
    tenant_id: UUID
    subject: UUID


@router.get("/datasets")
async def read_dataset(token: UUID, services: CurrentServices) -> JsonAnswer:
    """The shared dataset."""
    link = await _dataset(services, token)
    async with services.database.connection() as connection:
        return JsonAnswer(await require_dataset(connection, link.tenant_id, link.subject))


@router.get("/examples")
async def list_dataset_examples(
    token: UUID,
    services: CurrentServices,
    id: Annotated[list[UUID] | None, Query(max_length=1_000)] = None,
    as_of: str | None = None,
    limit: Limit = MAX_PAGE,
    offset: Offset = 0,
) -> JsonAnswer:
    """Examples of the shared dataset, newest first."""
    link = await _dataset(services, token)
    query = ExampleQuery(dataset_id=link.subject, ids=id, limit=min(limit, MAX_PAGE), offset=offset)
    async with services.database.connection() as connection:
        query.as_of = await resolve_as_of(connection, link.tenant_id, link.subject, as_of)
        rows = await list_examples(connection, link.tenant_id, query)
    return JsonAnswer([shape_example(services, row) for row in rows])


@router.get("/examples/count")
async def count(token: UUID, services: CurrentServices) -> JsonAnswer:
    """How many examples the shared dataset has now."""
    link = await _dataset(services, token)
    async with services.database.connection() as connection:
        return JsonAnswer(await count_examples(connection, link.tenant_id, link.subject))


@router.get("/datasets/sessions")
async def list_experiments(
    token: UUID,
    services: CurrentServices,
    id: Annotated[list[UUID] | None, Query(max_length=1_000)] = None,
    name: str | None = None,
    name_contains: str | None = None,
    limit: Limit = MAX_PAGE,
    offset: Offset = 0,
) -> JsonAnswer:
    """Experiments on the shared dataset with their statistics, newest first."""
    link = await _dataset(services, token)
    if not all(is_clean(text) for text in (name, name_contains) if text is not None):
        return JsonAnswer([])
    query = ProjectQuery(
        ids=id,
        name=name,
        name_contains=name_contains,
        reference_dataset_ids=[link.subject],
        limit=min(limit, MAX_PAGE),
        offset=offset,
    )
    async with bounded_reading(services) as connection:
        rows = await list_projects(connection, link.tenant_id, query)
        return JsonAnswer([await shape_with_stats(connection, row) for row in rows])


@router.get("/run")
async def read_root(token: UUID, services: CurrentServices) -> JsonAnswer:
    """The root run of the shared trace."""
    link = await _trace(services, token)
    return JsonAnswer(await _read(services, link, link.subject))


@router.get("/run/{run_id}")
async def read_run(token: UUID, run_id: UUID, services: CurrentServices) -> JsonAnswer:
    """One run of the shared trace."""
    return JsonAnswer(await _read(services, await _trace(services, token), run_id))


@router.post("/runs/query")
async def query_trace(
    token: UUID, body: Annotated[RunQueryBody, Body()], services: CurrentServices
) -> JsonAnswer:
    """Runs of the shared trace, in order of their start; of the conditions only `id` counts."""
    link = await _trace(services, token)
    wanted = RunQuery(trace_id=link.subject, run_ids=body.id, descending=False, limit=TRACE_PAGE)
    if body.cursor:
        wanted.after, wanted.backwards = read_cursor(body.cursor)
    async with bounded_reading(services) as connection:
        page = await query_runs(connection, link.tenant_id, wanted)
    runs = [shape_run(services, row) for row in page.rows]
    return JsonAnswer({"runs": runs, "cursors": cursors(page, wanted)})


@v2_router.get("/run/{run_id}", summary="Read a run of a shared trace")
async def read_selected(
    token: UUID,
    run_id: UUID,
    services: CurrentServices,
    selects: Annotated[list[str] | None, Query(max_length=200)] = None,
) -> JsonAnswer:
    """One run of the shared trace, with the fields that `selects` names."""
    link = await _trace(services, token)
    items = await _selected(services, link, RunQuery(run_ids=[run_id], limit=1), selects)
    if not items:
        raise NotFoundError(f"Run {run_id} not found in the shared trace.")
    return JsonAnswer(items[0])


class PublicQuery(BaseModel):
    model_config = ConfigDict(extra="ignore")

    selects: Annotated[list[str], Field(max_length=200)] | None = None


@v2_router.post("/runs/query", summary="Runs of a shared trace")
async def query_selected(
    token: UUID, body: Annotated[PublicQuery, Body()], services: CurrentServices
) -> JsonAnswer:
    """The first 1,000 runs of the shared trace, in order of their start."""
    link = await _trace(services, token)
    return JsonAnswer({"items": await _selected(services, link, RunQuery(limit=TRACE_PAGE), body.selects)})


async def _selected(
    services: Services, link: _Link, query: RunQuery, selects: list[str] | None
) -> list[dict[str, Any]]:
    asked = read_selects(selects)
    query.trace_id, query.descending, query.documents = link.subject, False, documents_of(asked)
    async with bounded_reading(services) as connection:
        page = await query_runs(connection, link.tenant_id, query)
        return await shape_runs(services, connection, link.tenant_id, page.rows, asked)


async def _read(services: Services, link: _Link, run_id: UUID) -> dict[str, Any]:
    query = RunQuery(trace_id=link.subject, run_ids=[run_id], limit=1)
    async with services.database.connection() as connection:
        page = await query_runs(connection, link.tenant_id, query)
    if not page.rows:
        raise NotFoundError(f"Run {run_id} not found in the shared trace.")
    return shape_run(services, page.rows[0])


async def _dataset(services: Services, token: UUID) -> _Link:
    return await _link(services, token, "dataset_id")


async def _trace(services: Services, token: UUID) -> _Link:
    return await _link(services, token, "trace_id")


async def _link(services: Services, token: UUID, subject: str) -> _Link:
    async with services.database.connection() as connection:
        row = await find_link(connection, token)
    if row is None or row[subject] is None:
        raise NotFoundError(_NO_LINK)
    return _Link(row["tenant_id"], row[subject])
