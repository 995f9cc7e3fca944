"""Which deployment a request is for: the name in its path, in the caller's workspace."""

import time
from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from api.agent_server.custom_auth import CustomAuthenticator
from api.agent_server.custom_rules import authorized
from api.agent_server.request_options import (
    configurable_of,
    configurable_of_user,
    log_headers,
    require_enabled,
)
from api.authentication import CurrentCaller, GivenCredentials, key_holder, workspace_caller
from api.errors import NotFoundError, UnavailableError
from api.services import CurrentServices, Services
from storage.served import ServedDeployment, find_only_served, find_served

# A new revision is seen by every API process within this time.
_TRUSTED_SECONDS = 1.0
_CACHE_LIMIT = 1_000


class DeploymentCache:
    """Looked-up deployments of this process, each remembered for a moment."""

    def __init__(self) -> None:
        self._known: dict[tuple[UUID, str], tuple[float, ServedDeployment]] = {}
        self._only: dict[str, tuple[float, ServedDeployment | None]] = {}

    async def find_guarded(self, services: Services, name: str) -> ServedDeployment | None:
        """The deployment of that name if it has its own authentication, so that no key says whose it is.

        None where several workspaces have one of that name: then a key must say.
        """
        served = await self.find_only(services, name)
        return served if served and served.section("auth").get("enabled") else None

    async def find_only(self, services: Services, name: str) -> ServedDeployment | None:
        """The deployment of that name if only one workspace has one."""
        known = self._only.get(name)
        if known and known[0] > time.monotonic():
            return known[1]
        async with services.database.connection() as connection:
            served = await find_only_served(connection, name)
        if len(self._only) >= _CACHE_LIMIT:
            self._only.clear()
        self._only[name] = (time.monotonic() + _TRUSTED_SECONDS, served)
        return served

    async def find(self, services: Services, tenant_id: UUID, name: str) -> ServedDeployment | None:
        known = self._known.get((tenant_id, name))
        if known and known[0] > time.monotonic():
            return known[1]
        async with services.database.connection() as connection:
            served = await find_served(connection, tenant_id, name)
        if served and served.revision_id:
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            self._known[tenant_id, name] = (time.monotonic() + _TRUSTED_SECONDS, served)
        return served


async def deployment_of(
    request: Request, credentials: GivenCredentials, services: CurrentServices
) -> ServedDeployment:
    """The deployment that the path names, for its workspace's key or for whom its own authentication recognises.

    Raises:
        UnauthorizedError: no valid key, or the deployment's own authentication refuses.
        NotFoundError: the caller's workspace has no deployment of that name, or it has switched the endpoint off.
    """
    name = request.path_params["deployment_name"]
    cache: DeploymentCache = request.app.state.deployments
    guarded = await cache.find_guarded(services, name)
    if guarded is not None and not _is_studio(guarded, request):
        authenticator: CustomAuthenticator = request.app.state.authenticator
        user = await authenticator.user_of(services, guarded, request)
        require_enabled(guarded, request)
        served, added = await authorized(services, guarded, request, user), configurable_of_user(user)
    else:
        caller = await workspace_caller(await key_holder(request, *credentials))
        served, added = await owned_deployment(request, caller, services), {}
    request.state.deployment_id = served.scope.deployment_id
    require_enabled(served, request)
    log_headers(served, request)
    return replace(served, server_configurable={**configurable_of(served, request), **added})


async def owned_deployment(
    request: Request, caller: CurrentCaller, services: CurrentServices
) -> ServedDeployment:
    """The deployment that the path names, in the workspace of the caller's key.

    Raises:
        NotFoundError: the caller's workspace has no deployment of that name.
    """
    name = request.path_params["deployment_name"]
    cache: DeploymentCache = request.app.state.deployments
    found = await cache.find(services, caller.tenant_id, name)
    if found is None:
        raise NotFoundError(f"Deployment '{name}' not found.")
    return found


def _is_studio(deployment: ServedDeployment, request: Request) -> bool:
    """Whether an operator's tool asks with the workspace's key, which `auth.disable_studio_auth` can forbid."""
    asks = request.headers.get("x-auth-scheme", "").lower() in ("langsmith", "slipway")
    return asks and not deployment.section("auth").get("disable_studio_auth")


async def serving_deployment(
    deployment: Annotated[ServedDeployment, Depends(deployment_of)],
) -> ServedDeployment:
    """The same, with a revision that serves.

    Raises:
        UnavailableError: no revision has been deployed yet.
    """
    if deployment.revision_id is None:
        raise UnavailableError(f"Deployment '{deployment.name}' has no deployed revision yet.", 5)
    return deployment


OwnedDeployment = Annotated[ServedDeployment, Depends(owned_deployment)]
CurrentDeployment = Annotated[ServedDeployment, Depends(deployment_of)]
ServingDeployment = Annotated[ServedDeployment, Depends(serving_deployment)]
