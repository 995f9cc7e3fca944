"""POST /a2a/{assistant_id} and the agent card (contract §3.8)."""

from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from psycopg.rows import DictRow
from pydantic import ValidationError

from api.agent_server.a2a.card import agent_card
from api.agent_server.a2a.dialect import (
    VERSION_HEADER,
    Dialect,
    dialect_of,
)
from api.agent_server.a2a.operations import Agent, Task
from api.agent_server.a2a.schemas import ListParams, SendParams, TaskParams
from api.agent_server.a2a.tasks import task_of_run
from api.agent_server.deployment import CurrentDeployment, ServingDeployment
from api.agent_server.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RequestId,
    RpcError,
    failure,
    invalid_params,
    parse_request,
    request_id_of,
    success,
)
from api.agent_server.parameters import AssistantId, errors
from api.agent_server.streams.following import HEARTBEAT, STREAM_HEADERS
from api.errors import ApiError, NotFoundError, UnavailableError
from api.json_response import OrjsonResponse
from api.services import CurrentServices, Services
from storage.assistants import Assistants, is_system
from storage.served import ServedDeployment

router = APIRouter(tags=["A2A"])


@router.get("/.well-known/agent-card.json", summary="An assistant's agent card", responses=errors())
async def card(
    assistant_id: Annotated[AssistantId, Query()], deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    assistant = await _find(services, deployment, assistant_id)
    if assistant is None:
        raise NotFoundError(f"Assistant {assistant_id} not found.")
    url = f"{services.settings.api_url}/deployments/{deployment.name}/a2a/{assistant_id}"
    graph = deployment.graph(assistant["graph_id"]) or {}
    return agent_card(assistant, url, graph.get("description"))


@router.post(
    "/a2a/{assistant_id}",
    summary="A JSON-RPC request of another agent",
    response_model=None,
    responses={
        **errors(),
        200: {"description": "The answer, an error of the protocol, or a stream of events."},
    },
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    },
)
async def call(
    assistant_id: AssistantId, request: Request, deployment: ServingDeployment, services: CurrentServices
) -> Response:
    body = await request.body()
    try:
        return await _answer(services, deployment, assistant_id, body, request.headers.get(VERSION_HEADER))
    except RpcError as error:
        return OrjsonResponse(failure(request_id_of(body), error))
    except ValidationError as error:
        return OrjsonResponse(failure(request_id_of(body), invalid_params(error)))
    except UnavailableError:
        raise
    except ApiError as error:
        code = INTERNAL_ERROR if error.status >= 500 else INVALID_PARAMS
        return OrjsonResponse(failure(request_id_of(body), RpcError(code, error.detail)))


async def _answer(
    services: Services, deployment: ServedDeployment, assistant_id: UUID, body: bytes, version: str | None
) -> Response:
    rpc = parse_request(body)
    dialect, operation = dialect_of(version, rpc.method)
    if operation is None:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {rpc.method}")
    assistant = await _find(services, deployment, assistant_id)
    if assistant is None:
        raise RpcError(INVALID_PARAMS, f"Invalid params: assistant {assistant_id} not found.")
    _require_messages(deployment, assistant)
    agent = Agent(services, deployment, assistant)
    match operation:
        case "send":
            return await _send(agent, dialect, rpc.id, SendParams.model_validate(rpc.params))
        case "stream":
            run = await agent.send(SendParams.model_validate(rpc.params))
            return _stream(agent, dialect, rpc.id, run, begin=True)
        case "resubscribe":
            run = await agent.require_run(TaskParams.model_validate(rpc.params).id)
            return _stream(agent, dialect, rpc.id, run, begin=dialect.is_1_0)
        case "get":
            task = await agent.get(TaskParams.model_validate(rpc.params))
        case "cancel":
            task = await agent.cancel(TaskParams.model_validate(rpc.params))
        case _:
            page = await agent.list(ListParams.model_validate(rpc.params))
            page["tasks"] = [dialect.task(item) for item in page["tasks"]]
            return OrjsonResponse(success(rpc.id, page))
    return OrjsonResponse(success(rpc.id, dialect.task(task)))


async def _send(agent: Agent, dialect: Dialect, request_id: RequestId, params: SendParams) -> Response:
    run = await agent.send(params)
    if params.configuration.return_immediately or params.configuration.blocking is False:
        task = await agent.get(TaskParams(id=f"{run['thread_id']}:{run['run_id']}"))
        return OrjsonResponse(success(request_id, dialect.task_result(task)))

    async def body() -> AsyncIterator[bytes]:
        async for task in agent.wait(run):
            if task is None:
                yield b"\n"
            else:
                yield orjson.dumps(success(request_id, dialect.task_result(task)))

    return StreamingResponse(body(), media_type="application/json")


def _stream(agent: Agent, dialect: Dialect, request_id: RequestId, run: DictRow, *, begin: bool) -> Response:
    """The task as it was taken, its text as it grows, its answer, its end."""

    def event(result: dict[str, Any]) -> bytes:
        return b"event: message\ndata: " + orjson.dumps(success(request_id, result)) + b"\n\n"

    async def body() -> AsyncIterator[bytes]:
        taken: Task = task_of_run({**run, "status": "pending", "values": None, "next": [], "interrupts": []})
        if begin:
            yield event(dialect.task_result(taken))
        async for text in agent.texts(run):
            if text is None:
                yield HEARTBEAT
            else:
                yield event(dialect.status_event({**taken, "state": "working", "note": text}, final=False))
        async for task in agent.wait(run):
            if task is None:
                yield HEARTBEAT
                continue
            for answer in task["answers"]:
                yield event(dialect.artifact_event(task, answer))
            yield event(dialect.status_event(task, final=True))

    return StreamingResponse(body(), media_type="text/event-stream", headers=STREAM_HEADERS)


async def _find(services: Services, deployment: ServedDeployment, assistant_id: UUID) -> DictRow | None:
    """None also where the assistant is another user's. Who may run a system assistant may know it."""
    async with services.database.connection() as connection:
        found = await Assistants(connection, deployment.scope).get(assistant_id)
    if found is None or deployment.permits(found["metadata"]) or is_system(found["metadata"]):
        return found
    return None


def _require_messages(deployment: ServedDeployment, assistant: DictRow) -> None:
    """Agents talk in messages.

    Raises:
        RpcError: the assistant's graph takes none.
    """
    graph = deployment.graph(assistant["graph_id"]) or {}
    schema = (graph.get("schemas") or {}).get("input") or {}
    properties = schema.get("properties")
    if properties is not None and "messages" not in properties:
        raise RpcError(
            INVALID_PARAMS,
            f"Invalid params: graph {assistant['graph_id']} has no `messages` in its input, so it cannot be spoken to.",
        )
