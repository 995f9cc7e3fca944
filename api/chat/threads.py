"""Routes under /api/threads whose shapes are the chat's own (streaming contract §2.3 to §2.6)."""

from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from api.agent_server.deployment import DeploymentCache
from api.agent_server.parameters import ThreadId
from api.agent_server.schemas import ThreadState
from api.agent_server.state import search_history
from api.agent_server.state_schemas import HistorySearch, StateUpdate
from api.agent_server.state_updates import apply_update
from api.agent_server.thread_removal import remove_threads
from api.authentication import Caller
from api.chat.callers import ChatCaller
from api.chat.errors import ChatRoute, InvalidStateUpdateError
from api.chat.forwarding import PREFIX
from api.chat.titles import title_of
from api.errors import BadRequestError, NotFoundError, UnavailableError
from api.json_response import OrjsonResponse
from api.services import CurrentServices, Services
from storage.chat import ChatThreads
from storage.served import ServedDeployment
from storage.states import States
from storage.threads import Threads
from workflows.messages import names

router = APIRouter(prefix=PREFIX, tags=["Chat"], route_class=ChatRoute)

_LIST_LIMIT = 200
# What a thread does next before it has a state: clients take it for active and open its stream.
_START = "__start__"
# Node of Python deep agents that a state update stands for.
_MODEL_NODE = "model"


class Activity(BaseModel):
    """What happens on a thread now, and where an operator sees it."""

    status: str
    runId: UUID | None  # noqa: N815 -- the routes of this area speak camel case
    runStatus: str | None  # noqa: N815
    error: str | None
    interruptIds: list[str]  # noqa: N815
    workflowUrl: str  # noqa: N815
    traceUrl: str | None  # noqa: N815


async def find_deployment(services: Services, caller: Caller, cache: DeploymentCache) -> ServedDeployment:
    """The deployment behind the chat, in the caller's workspace.

    Raises:
        UnavailableError: it is not there, or has no deployed revision yet.
    """
    name = services.settings.chat_deployment
    served = await cache.find(services, caller.tenant_id, name)
    if served is None or served.revision_id is None:
        raise UnavailableError(f"The agent of the chat, deployment '{name}', is not deployed yet.", 5)
    return served


async def _deployment(request: Request, caller: ChatCaller, services: CurrentServices) -> ServedDeployment:
    return await find_deployment(services, caller, request.app.state.deployments)


ChatDeployment = Annotated[ServedDeployment, Depends(_deployment)]


@router.get("", summary="Conversations, newest first")
@router.get("/", include_in_schema=False)
async def list_threads(
    deployment: ChatDeployment,
    services: CurrentServices,
    limit: Annotated[int, Query(ge=1, le=1_000)] = _LIST_LIMIT,
) -> Response:
    async with services.database.connection() as connection:
        rows = await ChatThreads(connection, deployment.scope).newest(limit)
    return OrjsonResponse(
        [
            {
                "id": str(row["thread_id"]),
                "title": title_of(row["input"], row["values"]),
                "updatedAt": row["updated_at"].isoformat(),
            }
            for row in rows
        ],
        headers={"Cache-Control": "no-store"},
    )


@router.delete("/{thread_id}", summary="Delete a conversation; its run is stopped", status_code=204)
async def delete_thread(thread_id: ThreadId, deployment: ChatDeployment, services: CurrentServices) -> None:
    await remove_threads(services, deployment, [thread_id])


@router.get("/{thread_id}/state", summary="State of a conversation")
async def get_state(thread_id: ThreadId, deployment: ChatDeployment, services: CurrentServices) -> Response:
    return OrjsonResponse(await _state(services, deployment, thread_id))


@router.post("/{thread_id}/state", summary="Begin a conversation, or write to its state")
async def post_state(
    thread_id: ThreadId, body: StateUpdate, deployment: ChatDeployment, services: CurrentServices
) -> Response:
    values = body.values or {"messages": []}
    async with services.database.connection() as connection:
        metadata = {"graph_id": deployment.graph_ids[0]}
        await Threads(connection, deployment.scope).create(thread_id, metadata)
        begun = await States(connection, deployment.scope).find(thread_id) is not None
    if begun or values != {"messages": []}:
        await _update(services, deployment, thread_id, body, values, begun)
    return OrjsonResponse(await _state(services, deployment, thread_id))


@router.post("/{thread_id}/history", summary="States, newest first")
async def get_history(
    thread_id: ThreadId, body: HistorySearch, deployment: ChatDeployment, services: CurrentServices
) -> Response:
    wanted = body if "limit" in body.model_fields_set else body.model_copy(update={"limit": 10})
    try:
        return await search_history(thread_id, wanted, deployment, services)
    except NotFoundError:
        raise _not_found(thread_id) from None


@router.get("/{thread_id}/activity", summary="The newest run, and where to look at it")
async def get_activity(
    thread_id: ThreadId, deployment: ChatDeployment, services: CurrentServices
) -> Activity:
    async with services.database.connection() as connection:
        row = await ChatThreads(connection, deployment.scope).activity(thread_id)
    if row is None:
        raise _not_found(thread_id)
    settings = services.settings
    workflow = names.thread_workflow_id(str(thread_id)).replace("/", "%2F")
    failed = row["run_status"] in ("error", "timeout")
    return Activity(
        status=row["status"],
        runId=row["run_id"],
        runStatus=row["run_status"],
        error=_message(row["error"]) if failed else None,
        interruptIds=[
            str(item["id"]) for items in row["interrupts"].values() for item in items if "id" in item
        ],
        workflowUrl=f"{settings.temporal_ui}/namespaces/{services.gateway.client.namespace}/workflows/{workflow}",
        traceUrl=f"/chat/{thread_id}/trace/{row['run_id']}" if row["run_id"] else None,
    )


async def _update(
    services: Services,
    deployment: ServedDeployment,
    thread_id: UUID,
    body: StateUpdate,
    values: dict[str, Any] | list[Any],
    begun: bool,
) -> None:
    messages = values.get("messages") if isinstance(values, dict) else None
    node = body.as_node or (_MODEL_NODE if begun and messages else _START)
    checkpoint = body.checkpoint.model_dump(exclude_none=True) if body.checkpoint else {}
    if body.checkpoint_id:
        checkpoint["checkpoint_id"] = body.checkpoint_id
    steps = [[{"values": values, "as_node": node}]]
    try:
        await apply_update(services, deployment, thread_id, steps, checkpoint or None)
    except BadRequestError as error:
        raise InvalidStateUpdateError(error.detail) from error
    except NotFoundError:
        raise _not_found(thread_id) from None


async def _state(services: Services, deployment: ServedDeployment, thread_id: UUID) -> dict[str, Any]:
    """The newest state. A thread that has none yet, or whose run has written none yet, is about to start."""
    async with services.database.connection() as connection:
        thread = await Threads(connection, deployment.scope).get(thread_id)
        if thread is None:
            raise _not_found(thread_id)
        found = await States(connection, deployment.scope).find(thread_id)
    if found is None:
        checkpoint = {"thread_id": str(thread_id), "checkpoint_ns": "", "checkpoint_id": None}
        return ThreadState(
            values={"messages": []},
            next=[_START],
            metadata={},
            created_at=thread["created_at"],
            checkpoint=checkpoint,
        ).model_dump()
    state: dict[str, Any] = orjson.loads(found)
    if thread["status"] == "busy" and not state["next"]:
        state["next"] = [_START]
    return state


def _message(error: Any) -> str | None:
    if isinstance(error, dict):
        return str(error.get("message") or error.get("error") or "The run failed.")
    return str(error) if error else None


def _not_found(thread_id: UUID) -> NotFoundError:
    return NotFoundError(f"Thread {thread_id} not found")
