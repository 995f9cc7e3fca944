"""A deployment's second address: below the `http.mount_prefix` of its langgraph.json (contract §2, §7)."""

from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from api.agent_server.custom_routes import custom_route
from api.agent_server.deployment import DeploymentCache
from api.authentication import credentials_of
from api.services import Services

# In the scope of a request whose prefix was taken off: that is done once.
_TAKEN_OFF = "slipway_mount_prefix"


async def unrouted(scope: Scope, receive: Receive, send: Send) -> None:
    """What no route answers: routed again without the deployment's prefix, else asked of the project's own routes.

    The server's own paths never begin with a prefix (the deployment would have been refused), so they are not slowed.
    """
    try:
        prefix = "" if _TAKEN_OFF in scope else await _prefix_of(HTTPConnection(scope))
    except (psycopg.OperationalError, PoolTimeout):
        if scope["type"] == "http":
            raise
        await send({"type": "websocket.close", "code": 4503})
        return
    if not prefix:
        await custom_route(scope, receive, send)
        return
    scope[_TAKEN_OFF] = True
    scope["root_path"] = scope.get("root_path", "") + prefix
    await scope["app"].router(scope, receive, send)


async def _prefix_of(connection: HTTPConnection) -> str:
    """The prefix with which the request's path begins; "" for none."""
    root: str = connection.scope.get("root_path", "")
    path = connection.scope["path"].removeprefix(root)
    services: Services = connection.app.state.services
    cache: DeploymentCache = connection.app.state.deployments
    name = connection.path_params["deployment_name"]
    served = await cache.find_only(services, name)
    if served is None and (tenant_id := await _tenant_of(services, connection)):
        served = await cache.find(services, tenant_id, name)
    prefix = served.mount_prefix if served else ""
    return prefix if prefix and (path == prefix or path.startswith(f"{prefix}/")) else ""


async def _tenant_of(services: Services, connection: HTTPConnection) -> UUID | None:
    """The workspace of the key that was sent, which only says which deployment of that name is meant."""
    key, _, bearer = credentials_of(connection)
    text = key or (bearer.credentials if bearer else None)
    holder = await services.keys.find(text) if text else None
    return holder.tenant.tenant_id if holder else None
