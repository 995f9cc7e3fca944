"""What a recognised user may do: asked of the project's `@auth.on` handlers (contract §7).

Before an endpoint runs, the request is named by resource and action and the handler asked. What it forbids is a 403.
A filter that it returns applies to the rows that the request names (others' are a 404) and to what it finds; what it
writes into the metadata is stamped on what the request creates, and what it makes of a namespace or a key of the store
is where the request reads and writes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from fastapi import Request

from api.agent_server.custom_auth import HandlerRefusalError
from api.agent_server.custom_operations import Operation, operation_of
from api.agent_server.parameters import RESERVED_METADATA
from api.agent_server.revision_calls import RevisionCallError, call_revision
from api.errors import ConflictError, ForbiddenError, NotFoundError
from api.services import Services
from storage.assistants import is_system
from storage.ownership import Ownership
from storage.served import ServedDeployment
from workflows.messages.revision import CallKind

_FORBIDDEN = "Forbidden"
_NO_STORE_FILTER = (
    "Forbidden: an @auth.on handler returned a filter for the store, whose items have no metadata. Let a handler of"
    " `auth.on.store` return None and check or change value['namespace']."
)


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
    operation = await operation_of(request)
    if operation is None:
        return deployment
    decision = await _decide(services, deployment, operation, user)
    wanted = decision["filter"] or {}
    if wanted and operation.resource == "store":
        raise ForbiddenError(_NO_STORE_FILTER)
    narrowed = replace(
        deployment,
        stamped_metadata={
            key: value for key, value in (decision["metadata"] or {}).items() if key not in RESERVED_METADATA
        },
        metadata_filter={key: _contained(value) for key, value in wanted.items()},
        store_place=decision.get("place") or {},
    )
    if wanted:
        await _check_rows(services, narrowed, operation)
    return narrowed


async def _decide(
    services: Services, deployment: ServedDeployment, operation: Operation, user: Mapping[str, Any]
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


async def _check_rows(services: Services, deployment: ServedDeployment, operation: Operation) -> None:
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
            if metadata is None or deployment.permits(metadata):
                continue
            if resource == "assistants" and operation.resource != "assistants" and is_system(metadata):
                continue
            if operation.action == "create" and resource == operation.resource:
                raise ConflictError(f"ID {row_id} is taken.")
            raise NotFoundError(f"{resource.removesuffix('s').capitalize()} {row_id} not found.")
        if operation.resource == "threads" and operation.action == "create":
            taken = _uuid(operation.value.get("thread_id"))
            metadata = await ownership.metadata("threads", taken) if taken else None
            if metadata is not None and not deployment.permits(metadata):
                raise ConflictError(f"Thread ID {taken} is taken.")


def _contained(wanted: Any) -> Any:
    """A handler's condition as a document that metadata must contain."""
    if isinstance(wanted, Mapping) and "$contains" in wanted:
        return wanted["$contains"] if isinstance(wanted["$contains"], list) else [wanted["$contains"]]
    return wanted["$eq"] if isinstance(wanted, Mapping) and "$eq" in wanted else wanted


def _uuid(value: Any) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None
