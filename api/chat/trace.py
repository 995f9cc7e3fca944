"""The trace of a chat's run, as the page draws it."""

from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel

from api.agent_server.parameters import RunId, ThreadId
from api.chat.callers import ChatCaller
from api.chat.errors import ChatRoute
from api.chat.forwarding import PREFIX
from api.chat.threads import ChatDeployment
from api.errors import NotFoundError
from api.services import CurrentServices
from storage.runs import Runs
from storage.traces.runs import RunQuery, query_runs

router = APIRouter(prefix=PREFIX, tags=["Chat"], route_class=ChatRoute)

MAX_SPANS = 2_000


class Span(BaseModel):
    """One run of a trace: the root or a step below it."""

    id: UUID
    parentId: UUID | None  # noqa: N815 -- the routes of this area speak camel case
    name: str
    type: str
    status: str
    error: str | None
    startTime: datetime  # noqa: N815
    endTime: datetime | None  # noqa: N815
    totalTokens: int | None  # noqa: N815


@router.get("/{thread_id}/runs/{run_id}/trace", summary="Steps of a run, in order of their start")
async def get_trace(
    thread_id: ThreadId,
    run_id: RunId,
    caller: ChatCaller,
    deployment: ChatDeployment,
    services: CurrentServices,
) -> list[Span]:
    """At most 2,000 steps. Empty until the first has arrived in the trace store."""
    async with services.database.connection() as connection:
        if await Runs(connection, deployment.scope).get(thread_id, run_id) is None:
            raise NotFoundError(f"Run {run_id} not found")
        # The runtime gives the trace's root the id of the run.
        query = RunQuery(trace_id=run_id, descending=False, limit=MAX_SPANS, documents=("error",))
        rows = (await query_runs(connection, caller.tenant_id, query)).rows
    return [_span(row) for row in rows]


def _span(row: dict[str, Any]) -> Span:
    return Span(
        id=row["id"],
        parentId=row["parent_run_id"],
        name=row["name"],
        type=row["run_type"],
        status=row["status"],
        error=row["error"],
        startTime=row["start_time"],
        endTime=row["end_time"],
        totalTokens=row["total_tokens"],
    )
