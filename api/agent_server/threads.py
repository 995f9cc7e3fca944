"""Threads (contract §3.3)."""

from dataclasses import replace
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Query, Response

from api.agent_server.deployment import CurrentDeployment
from api.agent_server.pagination import page_of
from api.agent_server.parameters import MAX_METADATA_BYTES, ThreadId, errors
from api.agent_server.schemas import Thread
from api.agent_server.state_updates import apply_update
from api.agent_server.thread_removal import prune_threads, remove_threads
from api.agent_server.thread_schemas import (
    Pruned,
    ThreadCreate,
    ThreadFilter,
    ThreadPart,
    ThreadPatch,
    ThreadPrune,
    ThreadSearch,
    ThreadStorage,
    ThreadWithTtl,
)
from api.errors import BadRequestError, ConflictError, InvalidError, NotFoundError, UnavailableError
from api.json_body import JsonRoute
from api.json_response import OrjsonResponse
from api.services import CurrentServices, Services
from storage import thread_search
from storage.served import ServedDeployment
from storage.thread_copies import ThreadCopies
from storage.threads import Threads

router = APIRouter(prefix="/threads", tags=["Threads"], route_class=JsonRoute)


@router.post("", summary="Create a thread", response_model=Thread, responses=errors(400, 409))
async def create_thread(
    body: ThreadCreate, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    if body.supersteps and not (body.metadata or {}).get("graph_id"):
        raise BadRequestError("supersteps: need metadata.graph_id, the graph that they update.")
    async with services.database.connection() as connection:
        threads = Threads(connection, deployment.scope)
        row = await threads.create(
            body.thread_id,
            deployment.stamped(body.metadata),
            **(
                {"ttl_strategy": body.ttl.strategy, "ttl_minutes": body.ttl.ttl}
                if body.ttl
                else deployment.thread_ttl
            ),
        )
        if row is None and body.thread_id and body.if_exists == "do_nothing":
            known = await threads.get(body.thread_id)
            if known:
                return known
    if row is None:
        raise ConflictError(f"Thread ID {body.thread_id} is taken.")
    if body.supersteps:
        return await _with_supersteps(services, deployment, row["thread_id"], body)
    return row


@router.post(
    "/search",
    summary="Search threads",
    response_model=None,
    responses={**errors(), 200: {"model": list[ThreadPart], "description": "A page of threads."}},
)
async def search_threads(
    body: ThreadSearch, deployment: CurrentDeployment, services: CurrentServices
) -> Response:
    fields = list(dict.fromkeys(body.select or Thread.model_fields))
    async with services.database.connection() as connection:
        rows = await thread_search.ThreadSearch(connection, deployment.scope).page(
            deployment.narrowed(body.model_dump(include={"ids", "metadata", "values", "status"})),
            body.sort_by or "created_at",
            body.sort_order != "asc",
            body.limit + 1,
            body.offset,
            fields=fields,
            extract=body.extractions(),
        )
    return page_of(rows, body.limit, body.offset, [*fields, "extracted"] if body.extract else fields)


@router.post("/count", summary="Count threads", responses=errors())
async def count_threads(body: ThreadFilter, deployment: CurrentDeployment, services: CurrentServices) -> int:
    async with services.database.connection() as connection:
        return await thread_search.ThreadSearch(connection, deployment.scope).count(
            deployment.narrowed(body.model_dump())
        )


@router.post("/prune", summary="Delete threads, or all but their newest state", responses=errors())
async def prune(body: ThreadPrune, deployment: CurrentDeployment, services: CurrentServices) -> Pruned:
    thread_ids = list(dict.fromkeys(body.thread_ids))
    act = remove_threads if body.strategy == "delete" else prune_threads
    return Pruned(pruned_count=await act(services, deployment, thread_ids))


@router.get(
    "/{thread_id}",
    summary="A thread; with include=ttl also when it expires",
    response_model=None,
    responses={**errors(), 200: {"model": ThreadWithTtl, "description": "The thread."}},
)
async def get_thread(
    thread_id: ThreadId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    include: Annotated[str | None, Query(description="Comma separated: ttl.", max_length=100)] = None,
) -> Response:
    wanted = {name.strip() for name in (include or "").split(",") if name.strip()}
    if unknown := wanted - {"ttl"}:
        raise InvalidError(f"include: unknown {sorted(unknown)}; known is ttl")
    async with services.database.connection() as connection:
        threads = Threads(connection, deployment.scope)
        row = await threads.get(thread_id)
        if row is None:
            raise _not_found(thread_id)
        if "ttl" in wanted:
            row["ttl"] = await threads.ttl(thread_id)
    return OrjsonResponse(row)


@router.patch("/{thread_id}", summary="Change a thread", response_model=Thread, responses=errors())
async def update_thread(
    thread_id: ThreadId, body: ThreadPatch, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    async with services.database.transaction() as connection:
        row = await Threads(connection, deployment.scope).update(
            thread_id,
            deployment.stamped(body.metadata),
            ttl_strategy=body.ttl.strategy if body.ttl else None,
            ttl_minutes=body.ttl.ttl if body.ttl else None,
        )
        if row is None:
            raise _not_found(thread_id)
        if len(orjson.dumps(row["metadata"])) > MAX_METADATA_BYTES:
            raise InvalidError(f"metadata: would be larger than {MAX_METADATA_BYTES} bytes after the merge")
    return row


@router.delete(
    "/{thread_id}",
    summary="Delete a thread with its runs and states; a running run is stopped",
    status_code=204,
    responses=errors(),
)
async def delete_thread(
    thread_id: ThreadId, deployment: CurrentDeployment, services: CurrentServices
) -> None:
    if not await remove_threads(services, deployment, [thread_id]):
        raise _not_found(thread_id)


@router.post(
    "/{thread_id}/copy",
    summary="A new idle thread with the same state and history",
    response_model=Thread,
    responses=errors(),
)
async def copy_thread(
    thread_id: ThreadId, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    async with services.database.connection() as connection:
        row = await ThreadCopies(connection, deployment.scope).copy(thread_id)
    if row is None:
        raise _not_found(thread_id)
    return row


@router.get("/{thread_id}/storage", summary="What a thread takes in the database", responses=errors())
async def get_storage(
    thread_id: ThreadId, deployment: CurrentDeployment, services: CurrentServices
) -> ThreadStorage:
    async with services.database.connection() as connection:
        row = await ThreadCopies(connection, deployment.scope).storage(thread_id)
    if row is None:
        raise _not_found(thread_id)
    channels = {
        "count": sum(channel["count"] for channel in row["channels"].values()),
        "bytes": sum(channel["bytes"] for channel in row["channels"].values()),
    }
    return ThreadStorage.model_validate(
        {
            "thread_id": thread_id,
            "total_bytes": row["checkpoints"]["bytes"] + channels["bytes"] + row["writes"]["bytes"],
            "checkpoints": row["checkpoints"],
            "channel_values": {**channels, "by_channel": row["channels"]},
            "pending_writes": row["writes"],
        }
    )


async def _with_supersteps(
    services: Services, deployment: ServedDeployment, thread_id: UUID, body: ThreadCreate
) -> dict[str, Any]:
    """The new thread with its initial state; without it there is no new thread."""
    try:
        if deployment.revision_id is None:
            raise UnavailableError(f"Deployment '{deployment.name}' has no deployed revision yet.", 5)
        steps = [superstep.model_dump()["updates"] for superstep in body.supersteps or ()]
        await apply_update(services, deployment, thread_id, steps)
    except BaseException:
        own = replace(deployment, metadata_filter={})
        await remove_threads(services, own, [thread_id])
        raise
    async with services.database.connection() as connection:
        row = await Threads(connection, deployment.scope).get(thread_id)
    if row is None:
        raise _not_found(thread_id)
    return row


def _not_found(thread_id: UUID) -> NotFoundError:
    return NotFoundError(f"Thread ID {thread_id} not found.")
