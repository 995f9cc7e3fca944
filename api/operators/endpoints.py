"""GET /healthz, /readyz."""

import psycopg
from fastapi import APIRouter, Response
from psycopg_pool import PoolTimeout
from pydantic import BaseModel

from api.services import CurrentServices, Services

router = APIRouter(tags=["Operators"])


class Health(BaseModel):
    status: str


class Readiness(BaseModel):
    ready: bool
    database: bool
    temporal: bool


@router.get("/healthz", summary="Whether this process runs")
async def healthz() -> Health:
    return Health(status="ok")


@router.get(
    "/readyz",
    summary="Whether this process can serve: its database and Temporal answer",
    responses={503: {"model": Readiness, "description": "A dependency is away."}},
)
async def readyz(services: CurrentServices, response: Response) -> Readiness:
    readiness = Readiness(
        ready=False,
        database=await _database_answers(services),
        temporal=await services.gateway.is_reachable(),
    )
    readiness.ready = readiness.database and readiness.temporal
    if not readiness.ready:
        response.status_code = 503
    return readiness


async def _database_answers(services: Services) -> bool:
    try:
        async with services.database.connection() as connection:
            await connection.execute("SELECT 1")
    except (psycopg.OperationalError, PoolTimeout):
        return False
    return True
