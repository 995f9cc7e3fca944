"""Routes of the project's own application, `http.app` (contract §7): asked for what no route of the server answers."""

import base64

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from api.agent_server.deployment import deployment_of
from api.agent_server.revision_calls import RevisionCallError, call_revision
from api.authentication import credentials_of
from api.errors import NotFoundError, TooLargeError, UnauthorizedError, UnavailableError
from api.services import services_of
from workflows.messages.revision import CallKind

MAX_BODY_BYTES = 4 * 1024 * 1024
_TIMEOUT_SECONDS = 60.0
# Ours to know, or only about one connection.
_NOT_PASSED = frozenset(
    {"x-api-key", "x-tenant-id", "connection", "transfer-encoding", "keep-alive", "upgrade"}
)
_NOT_RETURNED = frozenset(
    {"content-length", "connection", "transfer-encoding", "keep-alive", "date", "server"}
)


async def custom_route(scope: Scope, receive: Receive, send: Send) -> None:
    """The router's last resort. A caller must be known, as for every other route of the deployment."""
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 4404})
        return
    request = Request(scope, receive)
    response = await _answer(request)
    await response(scope, receive, send)


async def _answer(request: Request) -> Response:
    services = services_of(request)
    request.state.is_custom_route = True
    try:
        deployment = await deployment_of(request, credentials_of(request), services)
    except (UnauthorizedError, NotFoundError):
        # Whoever is not known does not learn which routes there are.
        raise HTTPException(404) from None
    if not deployment.section("http").get("app") or deployment.revision_id is None:
        raise HTTPException(404)
    body = await request.body()
    if len(body) > MAX_BODY_BYTES:
        raise TooLargeError(f"Request body too large (limit of custom routes: {MAX_BODY_BYTES} bytes)")
    question = {
        "method": request.method,
        "path": request.scope["path"].removeprefix(request.scope.get("root_path", "")) or "/",
        "query": request.scope["query_string"].decode("latin-1"),
        "headers": [[name, value] for name, value in request.headers.items() if name not in _NOT_PASSED],
        "body": base64.b64encode(body).decode(),
    }
    try:
        answer = await call_revision(services, deployment, CallKind.HTTP, question, _TIMEOUT_SECONDS)
    except RevisionCallError as error:
        raise UnavailableError(f"The custom route failed: {error.kind}") from error
    response = Response(base64.b64decode(answer["body"]), answer["status"])
    for name, value in answer["headers"]:
        if name.lower() not in _NOT_RETURNED:
            response.headers.append(name, value)
    return response
