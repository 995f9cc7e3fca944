"""Stateless runs, and the cancel of many runs (contract §3.4, §3.5)."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Response

from api.agent_server.deployment import CurrentDeployment, ServingDeployment
from api.agent_server.parameters import errors
from api.agent_server.run_cancellation import cancel_runs
from api.agent_server.run_creation import create_stateless_runs
from api.agent_server.runs import run_path
from api.agent_server.schemas import Run, RunCreate, RunsCancel
from api.agent_server.waiting import stream_outcome
from api.json_body import JsonRoute
from api.services import CurrentServices
from storage.runs import UNFINISHED
from workflows.messages.thread import CancelAction

router = APIRouter(prefix="/runs", tags=["Stateless Runs"], route_class=JsonRoute)

MAX_BATCH = 1_000


@router.post("", summary="Create a stateless run", response_model=Run, responses=errors(400))
async def create(
    body: RunCreate, deployment: ServingDeployment, services: CurrentServices, response: Response
) -> dict[str, Any]:
    row = (await create_stateless_runs(services, deployment, [body]))[0]
    response.headers["Content-Location"] = stateless_run_path(row["run_id"])
    return row


@router.post(
    "/wait",
    summary="Create a stateless run and wait for its final state",
    response_model=Any,
    responses=errors(400),
)
async def wait(body: RunCreate, deployment: ServingDeployment, services: CurrentServices) -> Response:
    row = (await create_stateless_runs(services, deployment, [body], watched=True))[0]
    thread_id, run_id = row["thread_id"], row["run_id"]
    headers = {
        "Location": f"{run_path(thread_id, run_id)}/join",
        "Content-Location": stateless_run_path(run_id),
    }
    return stream_outcome(
        services,
        deployment.scope,
        thread_id,
        run_id,
        headers,
        cancel_on_disconnect=body.on_disconnect == "cancel",
    )


@router.post(
    "/batch",
    summary="Create stateless runs, all or none",
    response_model=list[Run],
    responses=errors(400),
)
async def batch(
    bodies: Annotated[list[RunCreate], Body(min_length=1, max_length=MAX_BATCH)],
    deployment: ServingDeployment,
    services: CurrentServices,
) -> list[dict[str, Any]]:
    return await create_stateless_runs(services, deployment, bodies)


@router.post("/cancel", summary="Stop many runs", status_code=204, responses=errors())
async def cancel(
    body: RunsCancel,
    deployment: CurrentDeployment,
    services: CurrentServices,
    action: CancelAction = CancelAction.INTERRUPT,
) -> None:
    statuses = UNFINISHED if body.status in (None, "all") else (str(body.status),)
    await cancel_runs(
        services,
        deployment.scope,
        action,
        statuses=statuses,
        thread_id=body.thread_id,
        run_ids=body.run_ids,
        thread_metadata=deployment.metadata_filter,
    )


def stateless_run_path(run_id: UUID) -> str:
    return f"/runs/{run_id}"
