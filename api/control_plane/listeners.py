"""Listeners: registrations of compute infrastructure (mission document; control plane contract §1.5)."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import Field

from api.authentication import Caller, CurrentCaller
from api.control_plane.fields import Body, Limit, Offset, Text
from api.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from api.services import CurrentServices
from storage.listeners import (
    Listener,
    ListenerExistsError,
    ListenerInUseError,
    create_listener,
    delete_listener,
    get_listener,
    list_listeners,
    update_listener,
)

router = APIRouter(prefix="/listeners", tags=["Listeners (v2)"])

Namespace = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


class ListenerComputeConfig(Body):
    """Fields that are specific to `compute_type`."""

    k8s_namespaces: Annotated[list[Namespace], Field(max_length=1_000)] | None = None


class ListenerCreateRequest(Body):
    version: Text | None = None
    compute_type: Literal["k8s"]
    compute_id: Annotated[Text, Field(min_length=1, max_length=500)]
    compute_config: ListenerComputeConfig


class ListenerUpdateRequest(Body):
    """`compute_type` and `compute_id` cannot be changed; who sends them sends them as they are."""

    version: Text | None = None
    compute_config: ListenerComputeConfig | None = None
    compute_type: Text | None = None
    compute_id: Text | None = None


class ListenerReply(Body):
    """Mission document, Listener."""

    id: UUID
    version: str | None
    compute_type: str
    compute_id: str
    compute_config: ListenerComputeConfig
    created_at: datetime
    updated_at: datetime


class ListenersList(Body):
    resources: list[ListenerReply]
    offset: int


def enterprise_caller(caller: CurrentCaller) -> Caller:
    """A caller whose plan allows listeners.

    Raises:
        ForbiddenError: it does not.
    """
    if caller.tenant.plan != "enterprise":
        raise ForbiddenError(
            f"Listeners cannot be created for LangSmith workspace ID '{caller.tenant_id}'. Creating listeners is only"
            " allowed for LangSmith organizations with self-hosted enterprise plans."
        )
    return caller


EnterpriseCaller = Annotated[Caller, Depends(enterprise_caller)]


@router.get("")
async def list_(
    services: CurrentServices, caller: CurrentCaller, limit: Limit = 20, offset: Offset = 0
) -> ListenersList:
    """List the workspace's listeners, newest first."""
    async with services.database.connection() as connection:
        rows = await list_listeners(connection, caller.tenant_id, limit, offset)
    return ListenersList(resources=[_reply(row) for row in rows], offset=offset + len(rows))


@router.post("", status_code=201)
async def create(
    services: CurrentServices, caller: EnterpriseCaller, request: ListenerCreateRequest
) -> ListenerReply:
    """Register compute infrastructure. Start its process with `slipway worker listener`."""
    try:
        async with services.database.transaction() as connection:
            return _reply(
                await create_listener(
                    connection,
                    caller.tenant_id,
                    version=request.version,
                    compute_type=request.compute_type,
                    compute_id=request.compute_id,
                    compute_config=request.compute_config.model_dump(),
                )
            )
    except ListenerExistsError:
        raise ConflictError(
            f"A listener with compute ID '{request.compute_id}' already exists in this workspace."
        ) from None


@router.get("/{listener_id}")
async def get(services: CurrentServices, caller: EnterpriseCaller, listener_id: UUID) -> ListenerReply:
    """Get a listener."""
    async with services.database.connection() as connection:
        return _found(await get_listener(connection, caller.tenant_id, listener_id), listener_id)


@router.patch("/{listener_id}")
@router.put("/{listener_id}")
async def update(
    services: CurrentServices, caller: EnterpriseCaller, listener_id: UUID, request: ListenerUpdateRequest
) -> ListenerReply:
    """Change a listener's version or compute configuration."""
    changes: dict[str, Any] = request.model_dump(include={"version", "compute_config"}, exclude_unset=True)
    if changes.get("compute_config") is None:
        changes.pop("compute_config", None)
    async with services.database.connection() as connection:
        listener = _found(await get_listener(connection, caller.tenant_id, listener_id), listener_id)
        for field in ("compute_type", "compute_id"):
            if getattr(request, field) not in (None, getattr(listener, field)):
                raise InvalidError(f"'{field}' of a listener cannot be changed.")
        return _found(await update_listener(connection, caller.tenant_id, listener_id, changes), listener_id)


@router.delete("/{listener_id}", status_code=204)
async def delete(services: CurrentServices, caller: EnterpriseCaller, listener_id: UUID) -> None:
    """Remove a listener that no deployment is bound to."""
    try:
        async with services.database.transaction() as connection:
            deleted = await delete_listener(connection, caller.tenant_id, listener_id)
    except ListenerInUseError:
        raise ConflictError(f"Listener ID {listener_id} has deployments: delete them first.") from None
    if not deleted:
        raise NotFoundError(f"Listener ID {listener_id} not found.")


def _found(listener: Listener | None, listener_id: UUID) -> ListenerReply:
    if listener is None:
        raise NotFoundError(f"Listener ID {listener_id} not found.")
    return _reply(listener)


def _reply(listener: Listener) -> ListenerReply:
    return ListenerReply.model_validate(vars(listener))
