"""What a request does, as `@auth.on` handlers name it: resource, action, and the value that they see (contract §7)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request

from api.agent_server.a2a.dialect import METHODS
from api.errors import ForbiddenError
from api.json_body import parse_json

_ID = r"(?P<id>[^/]+)"
# The first that fits: methods, path, resource, action. `id` is a row of the resource.
_OPERATIONS: list[tuple[str, str, str, str]] = [
    ("POST", r"/assistants", "assistants", "create"),
    ("POST", r"/assistants/(search|count)", "assistants", "search"),
    ("POST", rf"/assistants/{_ID}/latest", "assistants", "update"),
    ("PATCH", rf"/assistants/{_ID}", "assistants", "update"),
    ("DELETE", rf"/assistants/{_ID}", "assistants", "delete"),
    ("GET|POST", rf"/assistants/{_ID}(/.*)?", "assistants", "read"),
    ("POST", r"/threads/(?P<thread>[^/]+)/runs/crons", "crons", "create"),
    ("POST", r"/runs/crons", "crons", "create"),
    ("POST", r"/runs/crons/(search|count)", "crons", "search"),
    ("GET", rf"/runs/crons/{_ID}", "crons", "read"),
    ("PATCH", rf"/runs/crons/{_ID}", "crons", "update"),
    ("DELETE", rf"/runs/crons/{_ID}", "crons", "delete"),
    ("POST", r"/threads", "threads", "create"),
    ("POST", r"/threads/(search|count)", "threads", "search"),
    ("POST", r"/threads/prune", "threads", "delete"),
    ("POST", r"/runs/cancel", "threads", "update"),
    ("POST", r"/runs(/stream|/wait|/batch)?", "threads", "create_run"),
    ("GET", r"/runs/[^/]+/stream", "threads", "read"),
    ("POST", rf"/threads/{_ID}/(runs(/stream|/wait)?|commands)", "threads", "create_run"),
    ("POST", rf"/threads/{_ID}/(history|copy|state/checkpoint|stream(/events)?)", "threads", "read"),
    ("GET", rf"/threads/{_ID}(/(state|history|storage|runs)(/.*)?)?", "threads", "read"),
    ("PATCH", rf"/threads/{_ID}", "threads", "update"),
    ("POST", rf"/threads/{_ID}/(state|runs/[^/]+/cancel)", "threads", "update"),
    ("DELETE", rf"/threads/{_ID}(/runs/[^/]+)?", "threads", "delete"),
    ("GET", rf"/threads/{_ID}/stream(/events)?", "threads", "create_run"),
    ("PUT", r"/store/items", "store", "put"),
    ("GET", r"/store/items", "store", "get"),
    ("DELETE", r"/store/items", "store", "delete"),
    ("POST", r"/store/items/search", "store", "search"),
    ("POST", r"/store/namespaces", "store", "list_namespaces"),
    ("GET", r"/\.well-known/agent-card\.json", "assistants", "read"),
]
_COMPILED = [
    (set(methods.split("|")), re.compile(path), resource, action)
    for methods, path, resource, action in _OPERATIONS
]
_RPC = re.compile(r"/(?:a2a/(?P<assistant>[^/]+)|mcp)")
# What a JSON-RPC request comes to; a method that is not here counts as what does most. None: nobody's rows are touched.
_RPC_ACTIONS: dict[str, tuple[str, str] | None] = {
    "initialize": None,
    "ping": None,
    "notifications/initialized": None,
    "tools/list": ("assistants", "search"),
}
_A2A_ACTIONS = {"get": "read", "resubscribe": "read", "list": "search", "cancel": "update"}
_MOST = ("threads", "create_run")
# Fields that handlers do not decide by and that may be large.
_DOCUMENTS = frozenset({"input", "command", "values", "supersteps", "updates", "params", "kwargs"})
_ID_FIELDS = {"threads": "thread_id", "assistants": "assistant_id", "crons": "cron_id"}
_STORE_FIELDS = {
    "put": ("namespace", "key", "value", "index"),
    "get": ("namespace", "key"),
    "delete": ("namespace", "key"),
    "search": ("namespace", "filter", "limit", "offset", "query"),
    "list_namespaces": ("namespace", "suffix", "max_depth", "limit", "offset"),
}


@dataclass(frozen=True)
class Operation:
    """`row_id`, `thread_id`, `assistants`: rows that the request names outright, and that must be the caller's."""

    resource: str
    action: str
    value: dict[str, Any]
    row_id: str | None = None
    thread_id: str | None = None
    assistants: list[Any] = field(default_factory=list)


async def operation_of(request: Request) -> Operation | None:
    """None for a request that touches nothing.

    Raises:
        ForbiddenError: no rule knows such a request.
    """
    path = request.scope["path"].removeprefix(request.scope.get("root_path", "")).rstrip("/")
    method = request.scope.get("method", "GET")
    body = await _body(request)
    fields = body if isinstance(body, dict) else {}
    if method == "POST" and (rpc := _RPC.fullmatch(path)):
        return _rpc_operation(fields, rpc.group("assistant"))
    for methods, pattern, resource, action in _COMPILED:
        match = pattern.fullmatch(path)
        if match and method in methods:
            if resource == "store":
                return Operation(resource, action, _store_value(request, action, fields))
            found = match.groupdict()
            return Operation(
                resource,
                action,
                _value(resource, found, fields),
                found.get("id"),
                found.get("thread"),
                _assistants(body),
            )
    raise ForbiddenError("Forbidden")


async def _body(request: Request) -> Any:
    """The body as JSON; nothing where it is none, which the endpoint will say."""
    if request.scope["type"] != "http":
        return {}
    try:
        return parse_json(await request.body() or b"{}")
    except json.JSONDecodeError:
        return {}


def _rpc_operation(fields: Mapping[str, Any], assistant_id: str | None) -> Operation | None:
    """Rows of its parameters are checked where they are used: what is not the caller's does not exist there."""
    method = str(fields.get("method"))
    named = _RPC_ACTIONS.get(method, _MOST)
    if assistant_id is not None and method in METHODS:
        named = ("threads", _A2A_ACTIONS.get(METHODS[method], _MOST[1]))
    if named is None:
        return None
    params = fields["params"] if isinstance(fields.get("params"), dict) else {}
    message = params["message"] if isinstance(params.get("message"), dict) else {}
    context = message.get("contextId") or params.get("contextId")
    task = str(message.get("taskId") or params.get("id") or "")
    thread_id = context or task.partition(":")[0]
    value = {
        **({"assistant_id": assistant_id} if assistant_id else {}),
        **({"thread_id": thread_id} if thread_id else {}),
        **({"metadata": params["metadata"]} if isinstance(params.get("metadata"), dict) else {}),
    }
    return Operation(*named, value)


def _store_value(request: Request, action: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the SDK's types say that handlers see of the store."""
    query = request.query_params
    given = {**fields}
    if action == "get":
        given = {"key": query.get("key"), "namespace": _labels(query.get("namespace"))}
    elif action == "search":
        given["namespace"] = fields.get("namespace_prefix") or []
    elif action == "list_namespaces":
        given["namespace"] = fields.get("prefix")
    return {name: given.get(name) for name in _STORE_FIELDS[action]}


def _labels(text: str | None) -> list[str]:
    return text.split(".") if text else []


def _value(resource: str, found: Mapping[str, str | None], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body's fields but for long documents, and the ids that the path names."""
    value = {name: field for name, field in fields.items() if name not in _DOCUMENTS}
    if found.get("thread"):
        value["thread_id"] = found["thread"]
    if found.get("id"):
        value[_ID_FIELDS[resource]] = found["id"]
    return value


def _assistants(body: Any) -> list[Any]:
    """Ids of assistants that a body names: its own, those of a batch, or that of a command."""
    bodies = body if isinstance(body, list) else [body]
    fields = [item for item in bodies if isinstance(item, dict)]
    nested = [item["params"] for item in fields if isinstance(item.get("params"), dict)]
    return [item["assistant_id"] for item in (*fields, *nested) if "assistant_id" in item]
