"""Errors of `/api/v2` as RFC 7807 problems."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from psycopg_pool import PoolTimeout
from pydantic import BaseModel

from api.errors import ApiError
from api.json_body import JsonRoute
from api.traces.answers import JsonAnswer


class NotOfferedError(ApiError):
    """Something of the contract that this installation does not have; says what to use in its place."""

    status = 501

    def __init__(self, detail: str) -> None:
        # The generated clients repeat what ends in 5xx, unless they are told not to.
        super().__init__(detail, headers={"X-Should-Retry": "false"})


class Problem(BaseModel):
    """What went wrong. `detail` says it with the value, `remedy` what to do where that is not the same."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    remedy: str | None


class ProblemAnswer(JsonAnswer):
    media_type = "application/problem+json"


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "A filter or cursor cannot be read."},
    401: {"model": Problem, "description": "No key, or one that nobody holds."},
    404: {"model": Problem, "description": "The workspace has no such thing."},
    422: {
        "model": Problem,
        "description": "A field is missing or of the wrong type, or the query reads too long.",
    },
    501: {"model": Problem, "description": "Not offered here."},
}


class ProblemRoute(JsonRoute):
    """`APIRouter(route_class=ProblemRoute)`: every error on purpose is a problem."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def with_problems(request: Request) -> Response:
            try:
                return await handle(request)
            except ApiError as error:
                return _problem(request, error.status, error.detail, error.headers)
            except RequestValidationError as error:
                return _problem(request, 422, _sentences(error))
            except psycopg.DataError:
                return _problem(
                    request, 422, "The request holds a value that the database cannot: a NUL character."
                )
            except (psycopg.OperationalError, PoolTimeout):
                headers = {"Retry-After": "1"}
                return _problem(request, 503, "The database cannot be reached; try again.", headers)

        return with_problems


def _problem(request: Request, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    problem = Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request.url.path,
        remedy=None,
    )
    return ProblemAnswer(problem.model_dump(), status, headers)


def _sentences(error: RequestValidationError) -> str:
    places = ((".".join(str(part) for part in item["loc"][1:]), item["msg"]) for item in error.errors()[:10])
    return "; ".join(f"{place}: {message}" if place else message for place, message in places)
