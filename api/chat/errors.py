"""Errors of the chat routes: `{"error": code, "message": text}` (streaming contract §2)."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from api.agent_server.content_type import assume_json
from api.errors import ApiError, InvalidError
from api.json_body import JsonRoute
from api.json_response import OrjsonResponse

_CODES = {
    400: "invalid_argument",
    401: "unauthorized",
    403: "permission_denied",
    404: "not_found",
    409: "conflict",
    413: "too_large",
    422: "invalid_argument",
    429: "too_many_requests",
    503: "unavailable",
}


class InvalidStateUpdateError(InvalidError):
    """The graph refuses the values of a bootstrap or state update (streaming contract §2.4)."""


class ChatRoute(JsonRoute):
    """`APIRouter(route_class=ChatRoute)`: errors in the chat's shape; a body needs no content type."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def with_chat_errors(request: Request) -> Response:
            try:
                return await handle(Request(assume_json(request.scope), request.receive))
            except ApiError as error:
                return chat_error(error)
            except RequestValidationError as error:
                return _body(422, _sentence(error))

        return with_chat_errors


def chat_error(error: ApiError) -> OrjsonResponse:
    """The answer that an error of ours becomes."""
    code = "invalid_state_update" if isinstance(error, InvalidStateUpdateError) else None
    return _body(error.status, error.detail, error.headers, code)


def _sentence(error: RequestValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "path", "query"))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _body(
    status: int, message: str, headers: dict[str, str] | None = None, code: str | None = None
) -> OrjsonResponse:
    return OrjsonResponse(
        {"error": code or _CODES.get(status, "unknown_error"), "message": message}, status, headers
    )
