"""Errors that the API answers on purpose. One class per cause; one handler renders them all."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import psycopg
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from psycopg_pool import PoolTimeout
from starlette.exceptions import HTTPException

from api.json_response import OrjsonResponse

log = structlog.get_logger()

# Mark on the state of a request: how its errors are written, where not as everywhere.
_RENDERER = "render_error"


class ApiError(Exception):
    """An answer that is not a success. `detail` says what was wrong, with which value, and what to do."""

    status = 500

    def __init__(self, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = headers


class BadRequestError(ApiError):
    status = 400


class UnauthorizedError(ApiError):
    status = 401


class ForbiddenError(ApiError):
    status = 403


class NotFoundError(ApiError):
    status = 404


class ConflictError(ApiError):
    status = 409


class TooLargeError(ApiError):
    status = 413


class InvalidError(ApiError):
    """What a schema cannot say: a value that is well formed and still refused."""

    status = 422


class TooManyRequestsError(ApiError):
    status = 429


class UnavailableError(ApiError):
    """Temporal, PostgreSQL or the object store is away; nothing was changed, and the call may be repeated."""

    status = 503

    def __init__(self, detail: str, retry_after_seconds: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_seconds)})


class SentenceRoute(APIRoute):
    """`APIRouter(route_class=SentenceRoute)`: errors also have a sentence under `error` (trace contract §5.4)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def marked(request: Request) -> Response:
            setattr(request.state, _RENDERER, self.render_error)
            return await handle(request)

        return marked

    def render_error(
        self, request: Request, status: int, sentence: str, detail: Any, headers: Mapping[str, str] | None
    ) -> Response:
        """An error's answer, wherever in the request it came up."""
        return OrjsonResponse({"error": sentence, "detail": detail}, status, headers)


def install_error_handlers(app: FastAPI, *, string_details: bool = False) -> None:
    """One shape for every error of an area: `{"detail": …}`, on routes of `SentenceRoute` with `error` beside it.

    With `string_details` a schema error's detail is a sentence (agent server contract §2), else the list of
    HTTPValidationError.
    """

    async def on_api_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return _answer(request, error.status, error.detail, headers=error.headers)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _answer(request, error.status_code, error.detail, headers=error.headers)

    async def on_schema_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        detail: Any = _sentence(error) if string_details else _plain(error)
        return _answer(request, 422, detail, sentence=_sentence(error))

    async def on_database_away(request: Request, error: Exception) -> Response:
        log.warning("database_unavailable", path=request.url.path, error=str(error))
        return await on_api_error(request, UnavailableError("The database cannot be reached; try again."))

    async def on_unstorable(request: Request, error: Exception) -> Response:
        log.info("unstorable_value", path=request.url.path, error=type(error).__name__)
        detail = "The request holds a value that cannot be stored: a NUL character, or a number out of range."
        return await on_api_error(request, InvalidError(detail))

    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_schema_error)
    app.add_exception_handler(psycopg.DataError, on_unstorable)
    app.add_exception_handler(psycopg.OperationalError, on_database_away)
    app.add_exception_handler(PoolTimeout, on_database_away)


def _answer(
    request: Request,
    status: int,
    detail: Any,
    *,
    sentence: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    render = getattr(request.state, _RENDERER, None)
    if render is None:
        return OrjsonResponse({"detail": detail}, status, headers)
    rendered: Response = render(request, status, sentence or str(detail), detail, headers)
    return rendered


def _plain(error: RequestValidationError) -> list[dict[str, Any]]:
    """Pydantic's list without what cannot be written as JSON."""
    return [{"loc": list(item["loc"]), "msg": item["msg"], "type": item["type"]} for item in error.errors()]


def _sentence(error: RequestValidationError) -> str:
    first = error.errors()[0]
    if first["type"] == "json_invalid" or (first["type"] == "missing" and first["loc"] == ("body",)):
        return "Invalid JSON in request body"
    place = ".".join(str(part) for part in first["loc"][1:])
    if first["loc"][0] == "path":
        return str(first["msg"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
