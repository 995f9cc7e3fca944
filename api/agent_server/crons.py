"""Crons (contract §3.6)."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Response

from api.agent_server.cron_changes import create_cron, cron_not_found, delete_cron, update_cron
from api.agent_server.cron_schemas import Cron, CronCount, CronCreate, CronPart, CronSearch, CronUpdate
from api.agent_server.deployment import CurrentDeployment, ServingDeployment
from api.agent_server.pagination import page_of
from api.agent_server.parameters import CronId, ThreadId, errors
from api.errors import InvalidError
from api.json_body import JsonRoute
from api.services import CurrentServices
from storage.assistants import system_assistant_id
from storage.crons import Crons
from storage.served import ServedDeployment

router = APIRouter(tags=["Crons"], route_class=JsonRoute)


@router.post(
    "/threads/{thread_id}/runs/crons",
    summary="Create a cron that runs on a thread",
    response_model=Cron,
    responses=errors(400),
)
async def create_for_thread(
    thread_id: ThreadId, body: CronCreate, deployment: ServingDeployment, services: CurrentServices
) -> dict[str, Any]:
    return await create_cron(services, deployment, body, thread_id)


@router.post("/runs/crons", summary="Create a cron", response_model=Cron, responses=errors(400))
async def create(
    body: CronCreate, deployment: ServingDeployment, services: CurrentServices
) -> dict[str, Any]:
    return await create_cron(services, deployment, body, None)


@router.post(
    "/runs/crons/search",
    summary="Search crons",
    response_model=None,
    responses={**errors(), 200: {"model": list[CronPart], "description": "A page of crons."}},
)
async def search(body: CronSearch, deployment: CurrentDeployment, services: CurrentServices) -> Response:
    async with services.database.connection() as connection:
        rows = await Crons(connection, deployment.scope).search(
            _filters(deployment, body),
            body.sort_by or "created_at",
            body.sort_order != "asc",
            body.limit + 1,
            body.offset,
        )
    return page_of(rows, body.limit, body.offset, body.select or tuple(Cron.model_fields))


@router.post("/runs/crons/count", summary="Count crons", responses=errors())
async def count(body: CronCount, deployment: CurrentDeployment, services: CurrentServices) -> int:
    async with services.database.connection() as connection:
        return await Crons(connection, deployment.scope).count(_filters(deployment, body))


@router.get("/runs/crons/{cron_id}", summary="A cron", response_model=Cron, responses=errors())
async def get(cron_id: CronId, deployment: CurrentDeployment, services: CurrentServices) -> dict[str, Any]:
    async with services.database.connection() as connection:
        row = await Crons(connection, deployment.scope).get(cron_id)
    if row is None:
        raise cron_not_found(cron_id)
    return row


@router.patch("/runs/crons/{cron_id}", summary="Change a cron", response_model=Cron, responses=errors(400))
async def update(
    cron_id: CronId, body: CronUpdate, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    return await update_cron(services, deployment, cron_id, body)


@router.delete("/runs/crons/{cron_id}", summary="Delete a cron", status_code=204, responses=errors())
async def delete(cron_id: CronId, deployment: CurrentDeployment, services: CurrentServices) -> None:
    await delete_cron(services, deployment, cron_id)


def _filters(deployment: ServedDeployment, body: CronCount) -> dict[str, Any]:
    return deployment.narrowed(
        {**body.model_dump(), "assistant_id": _assistant_id(deployment, body.assistant_id)}
    )


def _assistant_id(deployment: ServedDeployment, given: UUID | str | None) -> UUID | None:
    """An assistant's id, or that of a graph's system assistant."""
    if not isinstance(given, str):
        return given
    if given not in deployment.graph_ids:
        raise InvalidError("Invalid assistant ID: must be a UUID or the name of a registered graph.")
    return system_assistant_id(given)
