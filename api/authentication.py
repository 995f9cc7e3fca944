"""Who calls: API keys, and the workspace they stand for (mission document, Authentication)."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from api.errors import ForbiddenError, UnauthorizedError
from api.services import services_of
from storage.tenancy import KeyHolder, Tenant

_KEY = APIKeyHeader(name="X-Api-Key", scheme_name="API Key", auto_error=False)
_TENANT = APIKeyHeader(name="X-Tenant-Id", scheme_name="Tenant ID", auto_error=False)
_BEARER = HTTPBearer(scheme_name="Bearer Auth", auto_error=False)


@dataclass(frozen=True)
class Caller:
    """The workspace that a request acts for, and the key that says so."""

    tenant: Tenant
    holder: KeyHolder

    @property
    def tenant_id(self) -> UUID:
        return self.tenant.tenant_id


Credentials = tuple[str | None, str | None, HTTPAuthorizationCredentials | None]


async def given_credentials(
    key: Annotated[str | None, Security(_KEY)],
    tenant: Annotated[str | None, Security(_TENANT)],
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> Credentials:
    """Key, workspace and bearer token as sent, for `key_holder`; nothing is checked yet."""
    return key, tenant, bearer


async def key_holder(
    request: Request,
    key: Annotated[str | None, Security(_KEY)],
    tenant: Annotated[str | None, Security(_TENANT)],
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> Caller:
    """The caller, whatever the key's scope.

    Where an area in front of this one knows its callers in another way (the chat: a session), it hands them on in
    the request's state, which nothing that a client sends can reach.

    Raises:
        UnauthorizedError: no key, or one that nobody holds.
        ForbiddenError: `X-Tenant-Id` names another workspace than the key's.
    """
    known: Caller | None = getattr(request.state, "caller", None)
    if known:
        return known
    text = key or (bearer.credentials if bearer else None)
    if not text:
        raise UnauthorizedError("Missing API key: send it in the header X-Api-Key.")
    services = services_of(request)
    holder = await services.keys.find(text)
    if holder is None:
        raise UnauthorizedError("Invalid API key.")
    if tenant and not _same_tenant(tenant, holder.tenant.tenant_id):
        raise ForbiddenError("The API key does not belong to the workspace that X-Tenant-Id names.")
    return Caller(holder.tenant, holder)


async def workspace_caller(caller: Annotated[Caller, Depends(key_holder)]) -> Caller:
    """A caller with a full key of its workspace.

    Raises:
        ForbiddenError: the key may only write traces.
    """
    if caller.holder.scope != "workspace":
        raise ForbiddenError("This API key may only write traces.")
    return caller


def credentials_of(connection: HTTPConnection) -> Credentials:
    """What a WebSocket's handshake sent: FastAPI's security dependencies do not apply to it."""
    kind, _, text = connection.headers.get("authorization", "").partition(" ")
    bearer = HTTPAuthorizationCredentials(scheme=kind, credentials=text) if kind.lower() == "bearer" else None
    return connection.headers.get("x-api-key"), connection.headers.get("x-tenant-id"), bearer


def _same_tenant(text: str, tenant_id: UUID) -> bool:
    try:
        return UUID(text) == tenant_id
    except ValueError:
        return False


GivenCredentials = Annotated[Credentials, Depends(given_credentials)]
CurrentCaller = Annotated[Caller, Depends(workspace_caller)]
TracingCaller = Annotated[Caller, Depends(key_holder)]
