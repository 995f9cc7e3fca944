"""The store (contract §3.7)."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from pydantic import TypeAdapter, ValidationError

from api.agent_server.deployment import CurrentDeployment, ServingDeployment
from api.agent_server.parameters import errors
from api.agent_server.revision_calls import RevisionCallError, call_revision
from api.agent_server.store_schemas import (
    FoundItems,
    Item,
    ItemDelete,
    ItemPut,
    ItemSearch,
    Key,
    Labels,
    NamespaceList,
    Namespaces,
)
from api.errors import BadRequestError, InvalidError, UnavailableError
from api.json_body import JsonRoute
from api.services import CurrentServices, Services
from storage.served import ServedDeployment
from storage.store import StoreItems
from workflows.messages.revision import CallKind

router = APIRouter(prefix="/store", tags=["Store"], route_class=JsonRoute)

_LABELS: TypeAdapter[list[str]] = TypeAdapter(Labels)
_KEY: TypeAdapter[str] = TypeAdapter(Key)


@router.put("/items", summary="Store an item", status_code=204, responses=errors(400))
async def put_item(body: ItemPut, deployment: ServingDeployment, services: CurrentServices) -> None:
    namespace, key = _place(deployment, body.namespace, body.key)
    _check_value(body.value, services.settings.max_store_value_bytes)
    if _settings(deployment).get("indexed") and body.index is not False:
        item = {**body.model_dump(), "namespace": namespace, "key": key}
        await _ask(services, deployment, CallKind.STORE_PUT, item)
        return
    ttl = body.ttl if body.ttl is not None else _ttl(deployment).get("default_ttl")
    async with services.database.connection() as connection:
        await StoreItems(connection, deployment.scope).put(namespace, key, body.value, ttl)


@router.get("/items", summary="An item, or null", response_model=Item | None, responses=errors(400))
async def get_item(
    deployment: CurrentDeployment,
    services: CurrentServices,
    key: Annotated[str | None, Query(max_length=1_024)] = None,
    namespace: Annotated[str, Query(max_length=2_048, description="Labels joined by dots.")] = "",
    refresh_ttl: bool | None = None,
) -> dict[str, Any] | None:
    if not key:
        raise BadRequestError("Key is required")
    if "\0" in key:
        return None
    labels, key = _place(deployment, namespace.split(".") if namespace else [], key)
    async with services.database.connection() as connection:
        return await StoreItems(connection, deployment.scope).get(
            labels, key, refresh_ttl=_refreshes(deployment, refresh_ttl)
        )


@router.delete("/items", summary="Delete an item", status_code=204, responses=errors(400))
async def delete_item(body: ItemDelete, deployment: CurrentDeployment, services: CurrentServices) -> None:
    namespace, key = _place(deployment, body.namespace, body.key)
    async with services.database.connection() as connection:
        await StoreItems(connection, deployment.scope).delete(namespace, key)


@router.post("/items/search", summary="Search items", response_model=FoundItems, responses=errors())
async def search_items(
    body: ItemSearch, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    prefix = _namespace(deployment, body.namespace_prefix)
    if body.query and _settings(deployment).get("indexed"):
        search = {**body.model_dump(), "namespace_prefix": prefix}
        return {"items": await _ask(services, deployment, CallKind.STORE_SEARCH, search)}
    async with services.database.connection() as connection:
        items = await StoreItems(connection, deployment.scope).search(
            prefix,
            body.filter or {},
            body.limit,
            body.offset,
            refresh_ttl=_refreshes(deployment, body.refresh_ttl),
        )
    return {"items": items}


@router.post("/namespaces", summary="List namespaces", responses=errors())
async def list_namespaces(
    body: NamespaceList, deployment: CurrentDeployment, services: CurrentServices
) -> Namespaces:
    async with services.database.connection() as connection:
        found = await StoreItems(connection, deployment.scope).namespaces(
            _namespace(deployment, body.prefix or []),
            body.suffix or [],
            body.max_depth,
            body.limit,
            body.offset,
        )
    return Namespaces(namespaces=found)


async def _ask(
    services: Services, deployment: ServedDeployment, kind: CallKind, request: dict[str, Any]
) -> Any:
    """What takes the deployment's embedding."""
    try:
        return await call_revision(services, deployment, kind, request, timeout_seconds=30)
    except RevisionCallError as error:
        raise UnavailableError(f"The store's embedding failed: {error.kind}: {error.message}") from error


def _place(deployment: ServedDeployment, namespace: list[str], key: str) -> tuple[list[str], str]:
    """Where an item lies: as the request says, or as the project's own authorization makes it.

    Raises:
        BadRequestError: there is no namespace.
        InvalidError: it is none that the store takes.
    """
    labels = _namespace(deployment, namespace)
    if not labels:
        raise BadRequestError("Namespace is required")
    try:
        return labels, _KEY.validate_python(deployment.store_place.get("key", key))
    except ValidationError as error:
        raise InvalidError(f"key: {error.errors()[0]['msg']}") from None


def _namespace(deployment: ServedDeployment, namespace: list[str]) -> list[str]:
    try:
        return _LABELS.validate_python(deployment.store_place.get("namespace", namespace))
    except ValidationError as error:
        raise InvalidError(f"namespace: {error.errors()[0]['msg']}") from None


def _check_value(value: dict[str, Any], limit_bytes: int) -> None:
    text = orjson.dumps(value)
    if len(text) > limit_bytes:
        raise InvalidError(f"value: larger than {limit_bytes} bytes")
    if b"\\u0000" in text:
        raise InvalidError("value: holds a NUL character")


def _settings(deployment: ServedDeployment) -> dict[str, Any]:
    settings: dict[str, Any] = (deployment.description.get("options") or {}).get("store") or {}
    return settings


def _ttl(deployment: ServedDeployment) -> dict[str, Any]:
    return _settings(deployment).get("ttl") or {}


def _refreshes(deployment: ServedDeployment, given: bool | None) -> bool:
    """Reading lets an item's time begin anew, unless the request or the project says otherwise."""
    return bool(_ttl(deployment).get("refresh_on_read", True)) if given is None else given
