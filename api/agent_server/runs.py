"""Runs on a thread (contract §3.4)."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from api.agent_server.deployment import CurrentDeployment, ServingDeployment
from api.agent_server.pagination import page_of
from api.agent_server.parameters import Limit, Offset, RunId, ThreadId, errors
from api.agent_server.run_cancellation import cancel_runs, remove_run
from api.agent_server.run_creation import create_run
from api.agent_server.schemas import Run, RunCreate, RunField
from api.agent_server.waiting import stream_end, stream_outcome
from api.errors import NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices
from storage.runs import Runs
from storage.threads import Threads
from workflows.messages.thread import CancelAction

router = APIRouter(prefix="/threads/{thread_id}/runs", tags=["Thread Runs"], route_class=JsonRoute)


@router.post("", summary="Create a run in the background", response_model=Run, responses=errors(400, 409))
async def create(
    thread_id: ThreadId,
    body: RunCreate,
    deployment: ServingDeployment,
    services: CurrentServices,
    response: Response,
) -> dict[str, Any]:
    row = await create_run(services, deployment, thread_id, body)
    response.headers["Content-Location"] = run_path(thread_id, row["run_id"])
    return row


@router.post(
    "/wait",
    summary="Create a run and wait for its final state",
    response_model=Any,
    responses=errors(400, 409),
)
async def wait(
    thread_id: ThreadId,
    body: RunCreate,
    deployment: ServingDeployment,
    services: CurrentServices,
) -> Response:
    row = await create_run(services, deployment, thread_id, body, watched=True)
    path = run_path(thread_id, row["run_id"])
    headers = {"Location": f"{path}/join", "Content-Location": path}
    return stream_outcome(
        services,
        deployment.scope,
        thread_id,
        row["run_id"],
        headers,
        cancel_on_disconnect=body.on_disconnect == "cancel",
    )


@router.get("", summary="A thread's runs, newest first", response_model=list[Run], responses=errors(400))
async def page(
    thread_id: ThreadId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    limit: Limit = 10,
    offset: Offset = 0,
    status: str | None = None,
    select: Annotated[list[RunField] | None, Query()] = None,
) -> Response:
    async with services.database.connection() as connection:
        if await Threads(connection, deployment.scope).get(thread_id) is None:
            raise NotFoundError(f"Thread ID {thread_id} not found.")
        rows = await Runs(connection, deployment.scope).page(thread_id, status, limit + 1, offset)
    return page_of(rows, limit, offset, select or tuple(Run.model_fields))


@router.get("/{run_id}", summary="A run", response_model=Run, responses=errors())
async def get(
    thread_id: ThreadId, run_id: RunId, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    async with services.database.connection() as connection:
        row = await Runs(connection, deployment.scope).get(thread_id, run_id)
    if row is None:
        raise NotFoundError("Run not found")
    return row


@router.get("/{run_id}/join", summary="Wait for a run's final state", response_model=Any, responses=errors())
async def join(
    thread_id: ThreadId,
    run_id: RunId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    cancel_on_disconnect: bool = False,
) -> Response:
    async with services.database.connection() as connection:
        if await Runs(connection, deployment.scope).outcome(thread_id, run_id) is None:
            raise NotFoundError("Run not found")
    headers = {"Location": f"{run_path(thread_id, run_id)}/join"}
    return stream_outcome(
        services,
        deployment.scope,
        thread_id,
        run_id,
        headers,
        cancel_on_disconnect=cancel_on_disconnect,
    )


@router.post(
    "/{run_id}/cancel",
    summary="Stop a run; with wait=1 answer once it has ended",
    status_code=202,
    response_model=None,
    responses={**errors(), 200: {"description": "The run has ended (wait=1).", "model": dict[str, Any]}},
)
async def cancel(
    thread_id: ThreadId,
    run_id: RunId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    wait: bool = False,
    action: CancelAction = CancelAction.INTERRUPT,
) -> Response:
    await cancel_runs(services, deployment.scope, action, thread_id=thread_id, run_ids=[run_id])
    if not wait:
        return Response(status_code=202)
    headers = {"Location": f"{run_path(thread_id, run_id)}/join"}
    return stream_end(services, deployment.scope, thread_id, run_id, headers)


@router.delete("/{run_id}", summary="Delete a run", status_code=204, responses=errors())
async def delete(
    thread_id: ThreadId, run_id: RunId, deployment: CurrentDeployment, services: CurrentServices
) -> None:
    await remove_run(services, deployment.scope, thread_id, run_id)


def run_path(thread_id: UUID, run_id: UUID) -> str:
    """Path of a run below the deployment's address, against which clients of this contract resolve it."""
    return f"/threads/{thread_id}/runs/{run_id}"
