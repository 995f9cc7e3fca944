"""The store for clients, where it takes the user's embedding: writing what is indexed, and searching by meaning."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langgraph.store.base import NOT_PROVIDED, SearchItem

from slipway_runtime.messages import CallKind
from slipway_runtime.pools import Pool
from slipway_runtime.store import DeploymentStore, Stores


@dataclass(frozen=True)
class StoreCalls:
    """Requests hold the fields of the endpoints PUT /store/items and POST /store/items/search."""

    stores: Stores
    pool: Pool

    @property
    def answers(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[Any]]]:
        return {CallKind.STORE_PUT: self._put, CallKind.STORE_SEARCH: self._search}

    async def _put(self, request: dict[str, Any]) -> None:
        ttl = request.get("ttl")
        await self._open().aput(
            tuple(request["namespace"]),
            request["key"],
            request["value"],
            request.get("index"),
            ttl=NOT_PROVIDED if ttl is None else ttl,
        )

    async def _search(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        found = await self._open().asearch(
            tuple(request["namespace_prefix"]),
            query=request["query"],
            filter=request.get("filter"),
            limit=request["limit"],
            offset=request["offset"],
            refresh_ttl=request.get("refresh_ttl"),
        )
        return [_plain(item) for item in found]

    def _open(self) -> DeploymentStore:
        return self.stores.open(self.pool)


def _plain(item: SearchItem) -> dict[str, Any]:
    return {**item.dict(), "namespace": list(item.namespace)}
