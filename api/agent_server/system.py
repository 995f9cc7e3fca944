"""GET /ok, /info (contract §3.1)."""

from typing import Annotated, Any

import psycopg
from fastapi import APIRouter, Query, Request
from psycopg_pool import PoolTimeout
from pydantic import BaseModel

from api.agent_server.open_routes import open_deployment
from api.agent_server.parameters import errors
from api.errors import UnavailableError
from api.services import CurrentServices

router = APIRouter(tags=["System"])
VERSION = "0.1.0"


class Ok(BaseModel):
    ok: bool
    services: dict[str, str] = {}


class Info(BaseModel):
    version: str
    langgraph_py_version: str | None
    flags: dict[str, bool]
    host: dict[str, Any]


@router.get("/", include_in_schema=False)
@router.get("/ok", summary="Health; with check_db=1 of the database too", responses=errors())
async def ok(services: CurrentServices, check_db: Annotated[bool, Query()] = False) -> Ok:
    if not check_db:
        return Ok(ok=True)
    try:
        async with services.database.connection() as connection:
            await connection.execute("SELECT 1")
    except (psycopg.OperationalError, PoolTimeout):
        raise UnavailableError("The database cannot be reached.") from None
    return Ok(ok=True, services={"postgres": "healthy"})


@router.get("/info", summary="Server version, and the revision that serves", responses=errors())
async def info(request: Request, services: CurrentServices) -> Info:
    served = await open_deployment(request, services)
    revision = str(served.revision_id) if served.revision_id else None
    return Info(
        version=VERSION,
        langgraph_py_version=served.description.get("langgraph_version"),
        flags={
            "assistants": True,
            "crons": True,
            "langsmith": True,
            "langsmith_tracing_replicas": False,
            "langsmith_tracing_session_on_runs": True,
        },
        host={
            "kind": "slipway",
            "project_id": str(served.scope.deployment_id),
            "host_revision_id": revision,
            "revision_id": revision,
            "tenant_id": str(served.scope.tenant_id),
        },
    )
