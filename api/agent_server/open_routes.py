"""What needs no key: the deployment is known by its name alone, if only one workspace uses that name."""

from fastapi import Request

from api.agent_server.request_options import require_enabled
from api.errors import NotFoundError
from api.services import CurrentServices
from storage.served import ServedDeployment, find_only_served, find_served


async def open_deployment(request: Request, services: CurrentServices) -> ServedDeployment:
    """The deployment in the path; a valid key, where one is sent, says in which workspace.

    Raises:
        NotFoundError: there is none of that name, or several workspaces have one and no key tells which is meant; or
            it has switched the route off.
    """
    name = request.path_params["deployment_name"]
    holder = await services.keys.find(text) if (text := _key(request)) else None
    async with services.database.connection() as connection:
        if holder:
            served = await find_served(connection, holder.tenant.tenant_id, name)
        else:
            served = await find_only_served(connection, name)
    if served is None:
        raise NotFoundError(f"Deployment '{name}' not found.")
    require_enabled(served, request)
    return served


def _key(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return request.headers.get("x-api-key") or (token if scheme.lower() == "bearer" else None) or None
