"""Who calls the chat routes: a key's holder, the page's session, or, when it is allowed, anybody on this machine."""

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from api.authentication import Caller
from api.chat.session import COOKIE, tenant_of_token
from api.errors import ForbiddenError, UnauthorizedError
from api.services import Services
from storage.tenancy import KeyHolder, Tenant, find_tenant, first_tenant

_NO_KEY = UUID(int=0)
_LOOPBACK_NAMES = {"localhost", "127.0.0.1", "::1"}


async def chat_caller(request: Request) -> Caller:
    """The caller of a route under /api/threads.

    Raises:
        UnauthorizedError: no valid key and no valid session, and calls without a key are not allowed.
        ForbiddenError: the key may only write traces; or a session is used from another site's page.
    """
    return await resolve_caller(request, request.app.state.services)


async def resolve_caller(connection: HTTPConnection, services: Services) -> Caller:
    """The same for a request that is not routed yet."""
    key = connection.headers.get("x-api-key") or _bearer(connection)
    if key:
        return await _holder_of(services, key)
    token = connection.cookies.get(COOKIE)
    tenant_id = tenant_of_token(services.secrets, "chat-session", token) if token else None
    if tenant_id:
        _refuse_other_sites(connection, services)
        async with services.database.connection() as database:
            tenant = await find_tenant(database, tenant_id)
        if tenant:
            return _without_key(tenant)
    if services.settings.chat_without_key and _is_local(connection):
        _refuse_other_sites(connection, services)
        async with services.database.connection() as database:
            tenant = await first_tenant(database)
        if tenant:
            return _without_key(tenant)
    raise UnauthorizedError("Not signed in: open the chat page, or send an API key in the header X-Api-Key.")


async def holder_of_key(services: Services, key: str) -> KeyHolder | None:
    """Who holds a key of full scope; None if nobody does."""
    holder = await services.keys.find(key)
    return holder if holder and holder.scope == "workspace" else None


async def _holder_of(services: Services, key: str) -> Caller:
    holder = await services.keys.find(key)
    if holder is None:
        raise UnauthorizedError("Invalid API key.")
    if holder.scope != "workspace":
        raise ForbiddenError("This API key may only write traces.")
    return Caller(holder.tenant, holder)


def _without_key(tenant: Tenant) -> Caller:
    return Caller(tenant, KeyHolder(_NO_KEY, tenant, "workspace", None))


def _bearer(connection: HTTPConnection) -> str | None:
    kind, _, text = connection.headers.get("authorization", "").partition(" ")
    return text.strip() or None if kind.lower() == "bearer" else None


def _refuse_other_sites(connection: HTTPConnection, services: Services) -> None:
    """What carries no key must come from our own page or from a program, not from another site in a browser.

    Our own is what the request was sent to, or the public address, should a proxy in front change the name.
    """
    origin = connection.headers.get("origin")
    own = (connection.headers.get("host"), urlsplit(services.settings.api_url).netloc)
    foreign = origin is not None and urlsplit(origin).netloc not in own
    if foreign or connection.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise ForbiddenError("Requests from other sites need an API key.")


def _is_local(connection: HTTPConnection) -> bool:
    """From this machine, to a name of this machine: a name of somebody else's that resolves to us is not one."""
    host = urlsplit(f"//{connection.headers.get('host', '')}").hostname
    try:
        loopback = connection.client is not None and ipaddress.ip_address(connection.client.host).is_loopback
    except ValueError:
        return False
    return loopback and host in _LOOPBACK_NAMES


ChatCaller = Annotated[Caller, Depends(chat_caller)]
