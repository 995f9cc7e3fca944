"""Tracing projects and experiments, called sessions on the wire (trace contract §5.6)."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
import psycopg
from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api.authentication import CurrentCaller
from api.errors import BadRequestError, ConflictError, InvalidError, NotFoundError
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.project_shape import shape_project, shape_with_stats
from api.traces.reading import bounded_reading
from api.traces.text import JsonObject, Text, is_clean
from storage.project_lists import ProjectQuery, get_project, list_projects
from storage.project_records import create_project, mark_deleted, update_project
from storage.projects import DEFAULT_PROJECT, MAX_NAME_LENGTH, ensure_project

router = APIRouter(tags=["traces"])

_MAX_PAGE = 100
Name = Annotated[Text, StringConstraints(min_length=1, max_length=MAX_NAME_LENGTH)]
Key = Annotated[Text, StringConstraints(max_length=500)]
Description = Annotated[Text, StringConstraints(max_length=10_000)]


class ProjectChanges(BaseModel):
    """What a PATCH may change; nulls change nothing."""

    model_config = ConfigDict(extra="ignore")

    name: Name | None = None
    description: Description | None = None
    extra: JsonObject | None = None
    end_time: datetime | None = None
    default_dataset_id: UUID | None = None
    trace_tier: Literal["shortlived", "longlived"] | None = None


class ProjectCreation(ProjectChanges):
    """A new project, or with `reference_dataset_id` an experiment."""

    id: UUID | None = None
    name: Name | None = None
    reference_dataset_id: UUID | None = None
    num_examples: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    num_repetitions: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    evaluator_keys: (
        Annotated[list[Annotated[Text, StringConstraints(max_length=500)]], Field(max_length=1000)] | None
    ) = None
    start_time: datetime | None = None


@router.post("/sessions")
async def create(
    body: Annotated[ProjectCreation, Body()],
    services: CurrentServices,
    caller: CurrentCaller,
    upsert: bool = False,
) -> JsonAnswer:
    """A new project; 409 if the name is taken, unless `upsert`."""
    fields = _fields(body)
    fields.setdefault("name", f"project-{datetime.now(UTC):%Y%m%d%H%M%S%f}")
    async with services.database.transaction() as connection:
        row = await create_project(connection, caller.tenant_id, fields, upsert=upsert)
    if row is None:
        raise ConflictError(f"Project {fields['name']!r} already exists.")
    return JsonAnswer(shape_project(row))


@router.get("/sessions")
async def list_sessions(
    services: CurrentServices,
    caller: CurrentCaller,
    id: Annotated[list[UUID] | None, Query()] = None,
    name: str | None = None,
    name_contains: str | None = None,
    reference_dataset: Annotated[list[UUID] | None, Query()] = None,
    reference_free: bool | None = None,
    metadata: str | None = None,
    sort_by: str = "start_time",
    sort_by_desc: bool = True,
    limit: Annotated[int, Query(ge=1)] = _MAX_PAGE,
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    include_stats: bool = False,
    facets: bool = False,
) -> JsonAnswer:
    """Projects of the workspace, newest first; an unknown name gives []."""
    for text in (name, name_contains):
        if text is not None and not is_clean(text):
            return JsonAnswer([])
    query = ProjectQuery(
        ids=id,
        name=name,
        name_contains=name_contains,
        reference_dataset_ids=reference_dataset,
        experiments=None if reference_free is None else not reference_free,
        metadata=_metadata(metadata),
        sort_by=sort_by,
        descending=sort_by_desc,
        limit=min(limit, _MAX_PAGE),
        offset=offset,
    )
    async with bounded_reading(services) as connection:
        if query == ProjectQuery(limit=query.limit):
            # SDKs learn their workspace from the first project that they see.
            await ensure_project(connection, caller.tenant_id, DEFAULT_PROJECT)
        try:
            rows = await list_projects(connection, caller.tenant_id, query)
        except ValueError as error:
            raise InvalidError(str(error)) from None
        projects = [
            await shape_with_stats(connection, row, facets=facets) if include_stats else shape_project(row)
            for row in rows
        ]
    return JsonAnswer(projects)


@router.get("/sessions/{session_id}")
async def read(
    session_id: UUID, services: CurrentServices, caller: CurrentCaller, include_stats: bool = False
) -> JsonAnswer:
    """One project."""
    async with bounded_reading(services) as connection:
        row = await get_project(connection, caller.tenant_id, session_id)
        if row is None:
            raise NotFoundError(f"Project {session_id} not found.")
        return JsonAnswer(await shape_with_stats(connection, row) if include_stats else shape_project(row))


@router.patch("/sessions/{session_id}")
async def update(
    session_id: UUID,
    body: Annotated[ProjectChanges, Body()],
    services: CurrentServices,
    caller: CurrentCaller,
) -> JsonAnswer:
    """Change a project; nulls change nothing."""
    try:
        async with services.database.transaction() as connection:
            row = await update_project(connection, caller.tenant_id, session_id, _fields(body))
    except psycopg.errors.UniqueViolation:
        raise ConflictError(f"Project {body.name!r} already exists.") from None
    if row is None:
        raise NotFoundError(f"Project {session_id} not found.")
    return JsonAnswer(shape_project(row))


@router.delete("/sessions/{session_id}", status_code=202)
async def delete(session_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """Delete a project: gone at once for every reader; what it holds is removed in the background."""
    async with services.database.transaction() as connection:
        if not await mark_deleted(connection, caller.tenant_id, session_id):
            raise NotFoundError(f"Project {session_id} not found.")
    return JsonAnswer({"message": "Project deleted"}, 202)


def _fields(body: ProjectChanges) -> dict[str, Any]:
    fields = body.model_dump(exclude_none=True)
    for name in ("start_time", "end_time"):
        if name in fields and fields[name].tzinfo is None:
            fields[name] = fields[name].replace(tzinfo=UTC)
    return fields


def _metadata(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict) or not is_clean(text):
        raise BadRequestError("metadata: expected a JSON object.")
    return value
