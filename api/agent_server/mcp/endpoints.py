"""POST /mcp (contract §3.9)."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, ValidationError

from api.agent_server.deployment import ServingDeployment
from api.agent_server.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RequestId,
    RpcError,
    RpcRequest,
    failure,
    invalid_params,
    parse_request,
    request_id_of,
    success,
)
from api.agent_server.mcp.tools import Toolbox
from api.agent_server.parameters import errors
from api.agent_server.system import VERSION
from api.errors import ApiError, BadRequestError, UnavailableError
from api.json_response import OrjsonResponse
from api.services import CurrentServices, Services
from storage.served import ServedDeployment

router = APIRouter(tags=["MCP"])

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


class CallParams(BaseModel):
    name: str = Field(min_length=1, max_length=1_000)
    arguments: dict[str, Any] = {}


class ListParams(BaseModel):
    cursor: str | None = None


@router.post(
    "/mcp",
    summary="A JSON-RPC message of an MCP client",
    response_model=None,
    responses={
        **errors(400),
        200: {"description": "The answer, or an error of the protocol."},
        202: {"description": "A notification was taken."},
    },
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    },
)
async def call(request: Request, deployment: ServingDeployment, services: CurrentServices) -> Response:
    accepted = request.headers.get("accept", "*/*")
    if not any(kind in accepted for kind in ("application/json", "application/*", "*/*")):
        raise BadRequestError("Accept must allow application/json.")
    body = await request.body()
    try:
        return await _answer(services, deployment, parse_request(body))
    except RpcError as error:
        return OrjsonResponse(failure(request_id_of(body), error))
    except ValidationError as error:
        return OrjsonResponse(failure(request_id_of(body), invalid_params(error)))
    except UnavailableError:
        raise
    except ApiError as error:
        code = INTERNAL_ERROR if error.status >= 500 else INVALID_PARAMS
        return OrjsonResponse(failure(request_id_of(body), RpcError(code, error.detail)))


async def _answer(services: Services, deployment: ServedDeployment, rpc: RpcRequest) -> Response:
    if rpc.is_notification:
        return Response(status_code=202)
    toolbox = Toolbox(services, deployment)
    match rpc.method:
        case "initialize":
            return OrjsonResponse(success(rpc.id, _initialized(rpc.params, deployment)))
        case "ping":
            return OrjsonResponse(success(rpc.id, {}))
        case "tools/list":
            params = ListParams.model_validate(rpc.params)
            return OrjsonResponse(success(rpc.id, await toolbox.page(params.cursor)))
        case "tools/call":
            return await _call_tool(toolbox, rpc.id, CallParams.model_validate(rpc.params))
        case _:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {rpc.method}")


def _initialized(params: dict[str, Any], deployment: ServedDeployment) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "LangGraph", "title": deployment.name, "version": VERSION},
    }


async def _call_tool(toolbox: Toolbox, request_id: RequestId, params: CallParams) -> Response:
    run = await toolbox.begin(params.name, params.arguments)

    async def body() -> AsyncIterator[bytes]:
        async for result in toolbox.result(run):
            yield b"\n" if result is None else orjson.dumps(success(request_id, result))

    return StreamingResponse(body(), media_type="application/json")
