"""Root runs by conversation, as SDKs list threads (trace contract §4.3, §5.5)."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from api.authentication import CurrentCaller
from api.json_body import JsonRoute
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.parameters import MAX_PAGE, aware
from api.traces.reading import bounded_reading
from api.traces.run_query import RunFilters, conditions_of
from api.traces.thread_shape import shape_threads
from api.traces.v2.conditions import require_projects
from storage.traces.runs import RunQuery
from storage.traces.threads import ThreadQuery, count_threads, list_threads

router = APIRouter(tags=["traces"], route_class=JsonRoute)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class GroupsQuery(BaseModel):
    """Groups of a project's root runs; without times, of all of them. `filter` holds for one run of the group."""

    model_config = ConfigDict(extra="ignore")

    session_id: UUID
    group_by: Literal["conversation"]
    filter: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    offset: Annotated[int, Field(ge=0, lt=2**31)] = 0
    limit: Annotated[int, Field(ge=1)] = MAX_PAGE


@router.post("/runs/group")
async def group(
    body: Annotated[GroupsQuery, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """`groups`, latest activity first, each with its `group_key`, and `total`, how many there are."""
    start = aware(body.start_time) or _EPOCH
    before = aware(body.end_time) or datetime.now(UTC) + timedelta(days=1)
    conditions = list(conditions_of(RunFilters(filter=body.filter)))
    wanted = ThreadQuery(
        body.session_id, start, before, conditions, limit=min(body.limit, MAX_PAGE), offset=body.offset
    )
    matching = RunQuery(
        session_ids=[body.session_id],
        is_root=True,
        in_thread=True,
        start_time=start,
        before=before,
        conditions=conditions,
    )
    async with bounded_reading(services) as connection:
        await require_projects(connection, caller.tenant_id, [body.session_id])
        rows = await list_threads(connection, caller.tenant_id, wanted)
        groups = await shape_threads(connection, caller.tenant_id, body.session_id, rows)
        total = await count_threads(connection, caller.tenant_id, matching)
    return JsonAnswer(
        {"groups": [{**item, "group_key": item["thread_id"]} for item in groups], "total": total}
    )
