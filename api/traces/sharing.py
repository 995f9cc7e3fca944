"""Sharing a dataset or a trace: who has the link reads it without a key, until it is unshared (trace contract §5.8)."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict

from api.authentication import CurrentCaller
from api.errors import ConflictError, InvalidError, NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices
from api.traces.dataset_lookup import require_dataset
from api.traces.v2.problems import PROBLEMS, ProblemRoute
from storage.database import Connection
from storage.public_links import LinkTakenError, share, token_of, unshare
from storage.traces.runs import get_run

router = APIRouter(tags=["traces"], route_class=JsonRoute)
v2_router = APIRouter(prefix="/runs", tags=["traces v2"], route_class=ProblemRoute, responses=PROBLEMS)


class SharedDataset(BaseModel):
    dataset_id: UUID
    share_token: UUID


class SharedRun(BaseModel):
    run_id: UUID
    share_token: UUID


class ShareRequest(BaseModel):
    """`share_token`: the token that the link shall have; without it, one that nobody can guess."""

    model_config = ConfigDict(extra="ignore")

    share_token: UUID | None = None


@router.put("/datasets/{dataset_id}/share")
async def share_dataset(dataset_id: UUID, services: CurrentServices, caller: CurrentCaller) -> SharedDataset:
    """Give a dataset a link; one that is shared already keeps its own."""
    async with services.database.transaction() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        token = await share(connection, caller.tenant_id, dataset_id=dataset_id)
    return SharedDataset(dataset_id=dataset_id, share_token=token)


@router.get("/datasets/{dataset_id}/share")
async def read_share_of_dataset(
    dataset_id: UUID, services: CurrentServices, caller: CurrentCaller
) -> SharedDataset:
    """The link of a dataset; 404 if it is not shared."""
    async with services.database.connection() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        token = await token_of(connection, caller.tenant_id, dataset_id=dataset_id)
    if token is None:
        raise NotFoundError(f"Dataset {dataset_id} is not shared.")
    return SharedDataset(dataset_id=dataset_id, share_token=token)


@router.delete("/datasets/{dataset_id}/share")
async def unshare_dataset(dataset_id: UUID, services: CurrentServices, caller: CurrentCaller) -> None:
    """End the link of a dataset at once; nothing where there is none."""
    async with services.database.transaction() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        await unshare(connection, caller.tenant_id, dataset_id=dataset_id)


@router.put("/runs/{run_id}/share")
async def share_run(
    run_id: UUID, body: Annotated[ShareRequest, Body()], services: CurrentServices, caller: CurrentCaller
) -> SharedRun:
    """Give the trace of a root run a link; one that is shared already keeps its own."""
    async with services.database.transaction() as connection:
        await _require_root(connection, caller.tenant_id, run_id)
        try:
            token = await share(connection, caller.tenant_id, trace_id=run_id, token=body.share_token)
        except LinkTakenError as error:
            raise ConflictError(str(error)) from None
    return SharedRun(run_id=run_id, share_token=token)


@router.get("/runs/{run_id}/share")
async def read_share_of_run(
    run_id: UUID, services: CurrentServices, caller: CurrentCaller
) -> SharedRun | None:
    """The link of a root run's trace; null if it is not shared."""
    async with services.database.connection() as connection:
        if await get_run(connection, caller.tenant_id, run_id) is None:
            raise NotFoundError(f"Run {run_id} not found.")
        token = await token_of(connection, caller.tenant_id, trace_id=run_id)
    return SharedRun(run_id=run_id, share_token=token) if token else None


@router.delete("/runs/{run_id}/share")
async def unshare_run(run_id: UUID, services: CurrentServices, caller: CurrentCaller) -> None:
    """End the link of a trace at once; nothing where there is none."""
    async with services.database.transaction() as connection:
        await unshare(connection, caller.tenant_id, trace_id=run_id)


class TraceShare(BaseModel):
    session_id: UUID
    trace_id: UUID


class ShareToken(BaseModel):
    share_token: UUID


@v2_router.post("/{run_id}/share", summary="Share a trace")
async def share_trace(
    run_id: UUID, body: Annotated[TraceShare, Body()], services: CurrentServices, caller: CurrentCaller
) -> ShareToken:
    """Give the trace that a run belongs to a link; one that is shared already keeps its own."""
    async with services.database.transaction() as connection:
        await _require_root(connection, caller.tenant_id, body.trace_id)
        run = await get_run(connection, caller.tenant_id, run_id)
        if run is None or run["trace_id"] != body.trace_id or run["session_id"] != body.session_id:
            raise NotFoundError(
                f"Run {run_id} not found in trace {body.trace_id} of project {body.session_id}."
            )
        return ShareToken(share_token=await share(connection, caller.tenant_id, trace_id=body.trace_id))


@v2_router.delete("/{trace_id}/share", summary="Unshare a trace")
async def unshare_trace(trace_id: UUID, services: CurrentServices, caller: CurrentCaller) -> None:
    """End the link of a trace at once; nothing where there is none."""
    async with services.database.transaction() as connection:
        await unshare(connection, caller.tenant_id, trace_id=trace_id)


async def _require_root(connection: Connection, tenant_id: UUID, run_id: UUID) -> None:
    run = await get_run(connection, tenant_id, run_id)
    if run is None:
        raise NotFoundError(f"Run {run_id} not found.")
    if not run["is_root"]:
        raise InvalidError(f"Only whole traces are shared: share run {run['trace_id']}.")
