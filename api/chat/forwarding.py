"""What is not the chat's own goes to the agent server of the deployment, which serves it under its own address."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.requests import HTTPConnection, Request
from starlette.types import Message, Receive, Scope, Send

from api.authentication import Caller
from api.chat.callers import resolve_caller
from api.chat.errors import chat_error
from api.errors import ApiError
from api.services import Services
from storage.served import ServedDeployment

PREFIX = "/api/threads"
# Clients that were told no assistant send this name (streaming contract §2.1).
ANY_ASSISTANT = "_"

FindDeployment = Callable[[Services, Caller], Awaitable[ServedDeployment]]


class Forwarding:
    """The routes under /api/threads/{thread_id} as those of `/deployments/<chat>/threads/{thread_id}`.

    Commands that start a run may leave the assistant open; everything else is passed on as it came.
    """

    def __init__(self, agent_server: FastAPI, find_deployment: FindDeployment) -> None:
        self._agent_server = agent_server
        self._find_deployment = find_deployment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services: Services = self._agent_server.state.services
        try:
            caller = await resolve_caller(HTTPConnection(scope), services)
            deployment = await self._find_deployment(services, caller)
            if scope["type"] == "websocket":
                receive = _with_assistants(receive, deployment)
            elif scope["method"] == "POST" and scope["path"].endswith("/commands"):
                scope, receive = await _with_assistant(scope, receive, deployment)
        except ApiError as error:
            await _refuse(error, scope, receive, send)
            return
        root = f"/deployments/{deployment.name}"
        below = scope["path"].partition(PREFIX)[2]
        inner = {
            **scope,
            "root_path": root,
            "path": f"{root}/threads{below}",
            "path_params": {"deployment_name": deployment.name},
            "state": {**scope.get("state", {}), "caller": caller},
        }
        await self._agent_server(inner, receive, send)


async def _refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.detail[:100]})
        return
    await chat_error(error)(scope, receive, send)


async def _with_assistant(
    scope: Scope, receive: Receive, deployment: ServedDeployment
) -> tuple[Scope, Receive]:
    body = await Request(scope, receive).body()
    body = _named_assistant(body, deployment)
    headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return {**scope, "headers": [*headers, (b"content-length", str(len(body)).encode())]}, replay


def _with_assistants(receive: Receive, deployment: ServedDeployment) -> Receive:
    """The same for commands that come over a WebSocket."""

    async def renamed() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive" and message.get("text"):
            text = _named_assistant(message["text"].encode(errors="surrogatepass"), deployment)
            message = {**message, "text": text.decode(errors="surrogatepass")}
        return message

    return renamed


def _named_assistant(body: bytes, deployment: ServedDeployment) -> bytes:
    """The command with the deployment's first graph where the client named none; a broken one stays as it is."""
    try:
        command: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body
    params = command.get("params") if isinstance(command, dict) else None
    if not isinstance(params, dict) or command.get("method") != "run.start" or not deployment.graph_ids:
        return body
    if params.get("assistant_id", ANY_ASSISTANT) != ANY_ASSISTANT:
        return body
    return orjson.dumps({**command, "params": {**params, "assistant_id": deployment.graph_ids[0]}})
