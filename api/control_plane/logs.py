"""Log routes: v2 of a revision, and the v1 ones that the CLI uses (control plane contract §1.2, §1.4)."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, Field

from api.authentication import Caller, CurrentCaller
from api.control_plane.fields import Body, FilterText, Text
from api.control_plane.schemas import LogsResponse
from api.control_plane.service import ControlPlane
from api.errors import InvalidError
from api.services import CurrentServices, Services
from storage.revision_logs import LogQuery, LogType, read_logs

router = APIRouter(prefix="/deployments/{deployment_id}/revisions/{revision_id}", tags=["Revisions (v2)"])
v1_router = APIRouter(prefix="/projects/{project_id}", tags=["Logs (v1)"])

Order = Literal["asc", "desc"]
Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
LogLimit = Annotated[int, Query(ge=1, le=1_000)]


class LogsRequest(Body):
    """Control plane contract §1.4. Times are RFC 3339, or epoch milliseconds as the replies' own."""

    order: Order = "asc"
    limit: Annotated[int, Field(ge=1, le=1_000)] = 50
    offset: Text | None = None
    level: Level | None = None
    query: Text | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None

    def wanted(self, log_type: LogType) -> LogQuery:
        return LogQuery(
            log_type,
            self.order,
            self.limit,
            after=_cursor(self.offset),
            level=self.level,
            text=self.query,
            start_time=self.start_time,
            end_time=self.end_time,
        )


@router.get("/logs")
async def logs(
    services: CurrentServices,
    caller: CurrentCaller,
    deployment_id: UUID,
    revision_id: UUID,
    log_type: Annotated[LogType, Query(alias="type")],
    start_time: AwareDatetime | None = None,
    end_time: AwareDatetime | None = None,
    order: Order = "asc",
    limit: LogLimit = 50,
    offset: FilterText = None,
    query: FilterText = None,
    level: Level | None = None,
    run_id: UUID | None = None,
) -> LogsResponse:
    """Build or deploy logs of a revision."""
    wanted = LogQuery(
        log_type,
        order,
        limit,
        after=_cursor(offset),
        level=level,
        text=query,
        start_time=start_time,
        end_time=end_time,
        run_id=run_id,
    )
    return await _read(services, caller, deployment_id, revision_id, wanted)


@v1_router.post("/revisions/{revision_id}/build_logs")
async def build_logs(
    services: CurrentServices,
    caller: CurrentCaller,
    project_id: UUID,
    revision_id: UUID,
    request: LogsRequest,
) -> LogsResponse:
    """Build logs of a revision."""
    return await _read(services, caller, project_id, revision_id, request.wanted("build"))


@v1_router.post("/revisions/{revision_id}/deploy_logs")
async def deploy_logs(
    services: CurrentServices,
    caller: CurrentCaller,
    project_id: UUID,
    revision_id: UUID,
    request: LogsRequest,
) -> LogsResponse:
    """What a revision's workers print."""
    return await _read(services, caller, project_id, revision_id, request.wanted("deploy"))


@v1_router.post("/deploy_logs")
async def all_deploy_logs(
    services: CurrentServices, caller: CurrentCaller, project_id: UUID, request: LogsRequest
) -> LogsResponse:
    """What the workers of all revisions print."""
    return await _read(services, caller, project_id, None, request.wanted("deploy"))


async def _read(
    services: Services, caller: Caller, deployment_id: UUID, revision_id: UUID | None, wanted: LogQuery
) -> LogsResponse:
    control_plane = ControlPlane(services, caller)
    if revision_id is None:
        await control_plane.get(deployment_id)
    else:
        await control_plane.get_revision(deployment_id, revision_id)
    async with services.database.connection() as connection:
        rows = await read_logs(connection, caller.tenant_id, deployment_id, revision_id, wanted)
    return LogsResponse(
        logs=[_entry(row) for row in rows],
        # A cursor as long as there was something: a client that follows the log goes on from here.
        next_offset=str(rows[-1]["id"]) if rows else None,
    )


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "timestamp": row["logged_at"].isoformat().replace("+00:00", "Z"),
        "level": row["level"],
        "message": row["message"],
        "revision_id": str(row["revision_id"]),
    }


def _cursor(offset: str | None) -> int | None:
    if offset is None or offset == "":
        return None
    if not offset.isascii() or not offset.isdigit() or len(offset) > 18:
        raise InvalidError("'offset' must be a 'next_offset' of an earlier reply.")
    return int(offset)
