"""State of a thread, at a checkpoint and over time (contract §3.3). Answered without a worker."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Query, Response

from api.agent_server.deployment import CurrentDeployment, ServingDeployment
from api.agent_server.parameters import Limit, Name, ThreadId, errors
from api.agent_server.schemas import ThreadState
from api.agent_server.state_schemas import (
    Checkpoint,
    CheckpointConfig,
    HistorySearch,
    StateAt,
    StateFields,
    StateUpdate,
    StateUpdated,
)
from api.agent_server.state_updates import apply_update
from api.errors import InvalidError, NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices, Services
from storage.scope import DeploymentScope
from storage.states import States

router = APIRouter(prefix="/threads/{thread_id}", tags=["Threads"], route_class=JsonRoute)

_MAX_DEPTH = 10
_EMPTY = orjson.dumps(ThreadState().model_dump())

_ONE: dict[int | str, dict[str, Any]] = {200: {"model": ThreadState, "description": "The state."}}
_MANY: dict[int | str, dict[str, Any]] = {200: {"model": list[ThreadState], "description": "Newest first."}}


@router.get("/state", summary="Current state", response_model=None, responses={**errors(), **_ONE})
async def get_state(
    thread_id: ThreadId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    subgraphs: bool = False,
    select: Annotated[StateFields | None, Query()] = None,
) -> Response:
    return await _state(services, deployment.scope, thread_id, Checkpoint(), subgraphs, select)


@router.post(
    "/state/checkpoint", summary="State at a checkpoint", response_model=None, responses={**errors(), **_ONE}
)
async def get_state_at(
    thread_id: ThreadId, body: StateAt, deployment: CurrentDeployment, services: CurrentServices
) -> Response:
    return await _state(services, deployment.scope, thread_id, body.checkpoint, body.subgraphs, body.select)


@router.get(
    "/state/{checkpoint_id}",
    summary="State at a checkpoint; an unknown one is empty",
    response_model=None,
    responses={**errors(), **_ONE},
)
async def get_state_at_id(
    thread_id: ThreadId,
    checkpoint_id: Name,
    deployment: CurrentDeployment,
    services: CurrentServices,
    subgraphs: bool = False,
    select: Annotated[StateFields | None, Query()] = None,
) -> Response:
    checkpoint = Checkpoint(checkpoint_id=checkpoint_id)
    return await _state(services, deployment.scope, thread_id, checkpoint, subgraphs, select)


@router.post(
    "/state",
    summary="Write to the state as a node",
    response_model=StateUpdated,
    responses=errors(400, 409),
)
async def update_state(
    thread_id: ThreadId, body: StateUpdate, deployment: ServingDeployment, services: CurrentServices
) -> dict[str, Any]:
    checkpoint = body.checkpoint.model_dump(exclude_none=True) if body.checkpoint else {}
    if body.checkpoint_id:
        checkpoint["checkpoint_id"] = body.checkpoint_id
    steps = [[{"values": body.values, "as_node": body.as_node}]]
    written = await apply_update(services, deployment, thread_id, steps, checkpoint or None)
    return {"checkpoint": written, "configurable": written, "checkpoint_id": written.get("checkpoint_id")}


@router.get("/history", summary="States, newest first", response_model=None, responses={**errors(), **_MANY})
async def get_history(
    thread_id: ThreadId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    limit: Limit = 10,
    before: Name | None = None,
) -> Response:
    search = HistorySearch(limit=limit, before=before)
    return await _history(services, deployment.scope, thread_id, search)


@router.post(
    "/history", summary="Search states, newest first", response_model=None, responses={**errors(), **_MANY}
)
async def search_history(
    thread_id: ThreadId, body: HistorySearch, deployment: CurrentDeployment, services: CurrentServices
) -> Response:
    return await _history(services, deployment.scope, thread_id, body)


async def _state(
    services: Services,
    scope: DeploymentScope,
    thread_id: UUID,
    checkpoint: Checkpoint,
    subgraphs: bool,
    select: Sequence[str] | None,
) -> Response:
    async with services.database.connection() as connection:
        states = States(connection, scope)
        await _require_thread(states, thread_id)
        found = await states.find(thread_id, checkpoint.checkpoint_ns or "", checkpoint.checkpoint_id)
        if found and subgraphs:
            state = orjson.loads(found)
            await _add_subgraphs(states, thread_id, [state])
            found = orjson.dumps(state).decode()
    return _json(_selected(found, select) if found else _EMPTY)


async def _history(
    services: Services, scope: DeploymentScope, thread_id: UUID, search: HistorySearch
) -> Response:
    checkpoint = search.checkpoint or Checkpoint()
    async with services.database.connection() as connection:
        states = States(connection, scope)
        await _require_thread(states, thread_id)
        found = await states.history(
            thread_id,
            search.limit,
            namespace=checkpoint.checkpoint_ns or "",
            checkpoint_id=checkpoint.checkpoint_id,
            before=_checkpoint_id(search.before),
            metadata=search.metadata,
        )
    return _json(b"[" + b",".join(_selected(state, search.select) for state in found) + b"]")


async def _require_thread(states: States, thread_id: UUID) -> None:
    if not await states.has_thread(thread_id):
        raise NotFoundError(f"Thread ID {thread_id} not found.")


async def _add_subgraphs(states: States, thread_id: UUID, above: list[dict[str, Any]]) -> None:
    """Give each task that is a subgraph its state, level by level."""
    for _ in range(_MAX_DEPTH):
        tasks = {
            task["checkpoint"]["checkpoint_ns"]: task
            for state in above
            for task in state["tasks"]
            if (task.get("checkpoint") or {}).get("checkpoint_ns")
        }
        if not tasks:
            return
        above = []
        for namespace, text in (await states.newest_of(thread_id, list(tasks))).items():
            tasks[namespace]["state"] = orjson.loads(text)
            above.append(tasks[namespace]["state"])


def _checkpoint_id(before: str | CheckpointConfig | Checkpoint | None) -> str | None:
    if before is None or isinstance(before, str):
        return before
    checkpoint = before.configurable if isinstance(before, CheckpointConfig) else before
    if checkpoint.checkpoint_id is None:
        raise InvalidError("before: names no checkpoint_id")
    return checkpoint.checkpoint_id


def _selected(state: str, select: Sequence[str] | None) -> bytes:
    """Only the fields, and only the keys of values, that were asked for."""
    if not select:
        return state.encode()
    whole = orjson.loads(state)
    chosen = {name: whole.get(name) for name in select if "." not in name}
    keys = [name.partition(".")[2] for name in select if "." in name]
    values = whole.get("values")
    if keys and "values" not in chosen:
        chosen["values"] = (
            {key: values[key] for key in keys if key in values} if isinstance(values, dict) else {}
        )
    return orjson.dumps(chosen)


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
