"""What a recognised user may do: asked of the project's `@auth.on` handlers (contract §7).

Before an endpoint runs, the request is named by resource and action and the handler asked. What it forbids is a 403.
A filter that it returns applies to the rows that the request names (others' are a 404) and to what a search finds;
what it writes into the metadata is stamped on what the request creates. Where a filter cannot be applied: 403.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from fastapi import Request

from api.agent_server.custom_auth import HandlerRefusalError
from api.agent_server.parameters import RESERVED_METADATA
from api.agent_server.revision_calls import RevisionCallError, call_revision
from api.errors import ConflictError, ForbiddenError, NotFoundError
from api.json_body import parse_json
from api.services import Services
from storage.ownership import Ownership
from storage.served import ServedDeployment
from workflows.messages.revision import CallKind

_FORBIDDEN = "Forbidden"
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
    ("POST", r"/(a2a/[^/]+|mcp)", "threads", "create_run"),
    ("GET", r"/\.well-known/agent-card\.json", "assistants", "read"),
]
_COMPILED = [
    (set(methods.split("|")), re.compile(path), resource, action)
    for methods, path, resource, action in _OPERATIONS
]
# Requests whose rows are not named by their path: no filter could be applied to them.
_UNFILTERABLE = re.compile(r"/(a2a/.*|mcp|threads/prune|runs/cancel|\.well-known/.*)")
# Fields that handlers do not decide by and that may be large.
_DOCUMENTS = frozenset({"input", "command", "values", "supersteps", "value", "updates", "params", "kwargs"})
_ID_FIELDS = {"threads": "thread_id", "assistants": "assistant_id", "crons": "cron_id"}


@dataclass(frozen=True)
class _Operation:
    resource: str
    action: str
    path: str
    row_id: str | None
    thread_id: str | None
    value: dict[str, Any]
    assistants: list[Any]


async def authorized(
    services: Services, deployment: ServedDeployment, request: Request, user: Mapping[str, Any]
) -> ServedDeployment:
    """The deployment as this user may use it in this request.

    Raises:
        ForbiddenError: the handler forbids it, or returned a filter that cannot be applied here.
        HandlerRefusalError: the handler refused with a status of its own.
        NotFoundError: the request names a row that is not the user's.
    """
    if not deployment.section("auth").get("rules") or getattr(request.state, "is_custom_route", False):
        return deployment
    operation = await _operation(request)
    decision = await _decide(services, deployment, operation, user)
    wanted = decision["filter"] or {}
    if wanted:
        if _UNFILTERABLE.fullmatch(operation.path) or operation.resource == "store":
            raise ForbiddenError(_FORBIDDEN)
        await _check_rows(services, deployment, operation, wanted)
    return replace(
        deployment,
        stamped_metadata={
            key: value for key, value in (decision["metadata"] or {}).items() if key not in RESERVED_METADATA
        },
        metadata_filter={key: _contained(value) for key, value in wanted.items()},
    )


async def _operation(request: Request) -> _Operation:
    path = request.scope["path"].removeprefix(request.scope.get("root_path", "")).rstrip("/")
    method = request.scope.get("method", "GET")
    for methods, pattern, resource, action in _COMPILED:
        match = pattern.fullmatch(path)
        if match and method in methods:
            found = match.groupdict()
            body = await _body(request)
            return _Operation(
                resource,
                action,
                path,
                found.get("id"),
                found.get("thread"),
                _value(request, resource, found, body),
                _assistants(body),
            )
    raise ForbiddenError(_FORBIDDEN)


async def _body(request: Request) -> Any:
    """The body as JSON; nothing where it is none, which the endpoint will say."""
    if request.scope["type"] != "http":
        return {}
    try:
        return parse_json(await request.body() or b"{}")
    except json.JSONDecodeError:
        return {}


def _value(request: Request, resource: str, found: Mapping[str, str | None], body: Any) -> dict[str, Any]:
    """What the handler sees: the body's fields but for long documents, and the ids that the path names."""
    fields = body if isinstance(body, dict) else {}
    value = {name: field for name, field in fields.items() if name not in _DOCUMENTS}
    query = request.query_params
    if resource == "store" and "namespace" in query:
        value |= {"namespace": query["namespace"].split("."), "key": query.get("key")}
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


async def _decide(
    services: Services, deployment: ServedDeployment, operation: _Operation, user: Mapping[str, Any]
) -> dict[str, Any]:
    question = {
        "user": dict(user),
        "resource": operation.resource,
        "action": operation.action,
        "value": operation.value,
    }
    try:
        decision: dict[str, Any] = await call_revision(services, deployment, CallKind.AUTHORIZE, question)
    except RevisionCallError as error:
        raise ForbiddenError(_FORBIDDEN) from error
    if status := decision.get("status"):
        raise HandlerRefusalError(status if 400 <= status < 500 else 403, str(decision.get("detail")))
    if not decision["allowed"]:
        raise ForbiddenError(_FORBIDDEN)
    return decision


async def _check_rows(
    services: Services, deployment: ServedDeployment, operation: _Operation, wanted: Mapping[str, Any]
) -> None:
    """Rows that the request names, in its path or its body, must match; a missing one is the endpoint's business."""
    named = [
        (operation.resource, operation.row_id),
        ("threads", operation.thread_id),
        *(("assistants", assistant_id) for assistant_id in operation.assistants),
    ]
    async with services.database.connection() as connection:
        ownership = Ownership(connection, deployment.scope)
        for resource, text in named:
            row_id = _uuid(text)
            metadata = await ownership.metadata(resource, row_id) if row_id else None
            if metadata is None or _matches(metadata, wanted):
                continue
            if resource == "assistants" and operation.resource != "assistants" and _is_system(metadata):
                continue
            if operation.action == "create" and resource == operation.resource:
                raise ConflictError(f"ID {row_id} is taken.")
            raise NotFoundError(f"{resource.removesuffix('s').capitalize()} {row_id} not found.")
        if operation.resource == "threads" and operation.action == "create":
            taken = _uuid(operation.value.get("thread_id"))
            metadata = await ownership.metadata("threads", taken) if taken else None
            if metadata is not None and not _matches(metadata, wanted):
                raise ConflictError(f"Thread ID {taken} is taken.")


def _matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_fits(metadata.get(key), value) for key, value in wanted.items())


def _fits(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and "$contains" in wanted:
        items = wanted["$contains"] if isinstance(wanted["$contains"], list) else [wanted["$contains"]]
        return isinstance(found, list) and all(item in found for item in items)
    if isinstance(wanted, Mapping) and "$eq" in wanted:
        return bool(found == wanted["$eq"])
    return bool(found == wanted)


def _contained(wanted: Any) -> Any:
    """The same condition as a document that metadata must contain."""
    if isinstance(wanted, Mapping) and "$contains" in wanted:
        return wanted["$contains"] if isinstance(wanted["$contains"], list) else [wanted["$contains"]]
    return wanted["$eq"] if isinstance(wanted, Mapping) and "$eq" in wanted else wanted


def _is_system(metadata: Mapping[str, Any]) -> bool:
    """Everybody may run a graph by its name."""
    return metadata.get("created_by") == "system"


def _uuid(value: Any) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None
