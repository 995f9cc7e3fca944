"""JSON-RPC 2.0, as A2A and MCP use it: one request a body, errors with HTTP 200."""

import json
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from api.json_body import parse_json

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

RequestId = str | int | None


class RpcError(Exception):
    """An error object of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True)
class RpcRequest:
    """`is_notification`: it has no id and gets no answer."""

    id: RequestId
    method: str
    params: dict[str, Any]
    is_notification: bool


def parse_request(body: bytes) -> RpcRequest:
    """The one request of a body.

    Raises:
        RpcError: it is not JSON, or not a request of this protocol.
    """
    try:
        raw = parse_json(body)
    except json.JSONDecodeError:
        raise RpcError(PARSE_ERROR, "Parse error: the body is not JSON.") from None
    if not isinstance(raw, dict) or raw.get("jsonrpc") != "2.0" or not isinstance(raw.get("method"), str):
        raise RpcError(INVALID_REQUEST, "Invalid request: an object with jsonrpc 2.0 and a method is needed.")
    given = raw.get("id")
    if (not isinstance(given, (str, int)) and given is not None) or isinstance(given, bool):
        raise RpcError(INVALID_REQUEST, "Invalid request: id must be a text, an integer or null.")
    params = raw.get("params")
    if params is not None and not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: must be an object.")
    return RpcRequest(given, raw["method"], params or {}, "id" not in raw)


def request_id_of(body: bytes) -> RequestId:
    """The id of a body that may not be a valid request: for the error's answer."""
    try:
        given = orjson.loads(body).get("id")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return given if isinstance(given, (str, int)) and not isinstance(given, bool) else None


def success(request_id: RequestId, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: RequestId, error: RpcError) -> dict[str, Any]:
    described: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        described["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": described}


def invalid_params(error: ValidationError) -> RpcError:
    """The first thing that is wrong, with its place."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return RpcError(
        INVALID_PARAMS, f"Invalid params: {place}: {first['msg']}" if place else str(first["msg"])
    )
