"""Reads JSON bodies strictly: what passes can be stored and sent back."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute

# orjson writes at most so many levels.
_MAX_DEPTH = 250


class JsonRequest(Request):
    """A request whose JSON has no lone surrogates, no NaN, and at most 250 levels."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = parse_json(await self.body())
        return self._json


class JsonRoute(APIRoute):
    """`APIRouter(route_class=JsonRoute)`: a body that is not such JSON is a 422 like any other broken body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def with_strict_json(request: Request) -> Response:
            strict = JsonRequest(request.scope, request.receive)
            # Read here, so that a body over the limit is a 413 and not "an error parsing the body".
            await strict.body()
            return await handle(strict)

        return with_strict_json


def parse_json(body: bytes) -> Any:
    """The value of a body.

    Raises:
        json.JSONDecodeError: it is no JSON, or nested too deeply to be written again.
    """
    value = orjson.loads(body)
    if body.count(b"[") + body.count(b"{") > _MAX_DEPTH:
        try:
            orjson.dumps(value)
        except TypeError:
            raise json.JSONDecodeError(f"nested deeper than {_MAX_DEPTH} levels", "", 0) from None
    return value
