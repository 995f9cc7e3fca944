"""Cross-origin requests, as each deployment's `http.cors` says (contract §2, §7)."""

import time
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from api.services import Services
from storage.served import find_only_served

# What a deployment that says nothing allows: everybody, but without cookies.
_OPEN: dict[str, Any] = {"allow_origins": ["*"], "allow_methods": ["*"], "allow_headers": ["*"]}
_EXPOSED = ["Content-Location", "Location", "X-Pagination-Total", "X-Pagination-Next"]
_TRUSTED_SECONDS = 5.0
_CACHE_LIMIT = 1_000


class DeploymentCors:
    """Asks the deployment's rules only for requests that come from a page of another origin."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._known: dict[str, tuple[float, ASGIApp]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and any(name == b"origin" for name, _ in scope["headers"]):
            app = await self._guarded(scope)
        await app(scope, receive, send)

    async def _guarded(self, scope: Scope) -> ASGIApp:
        name = scope.get("path_params", {}).get("deployment_name", "")
        known = self._known.get(name)
        if known and known[0] > time.monotonic():
            return known[1]
        rules = await _rules(scope["app"].state.services, name)
        guarded = CORSMiddleware(self._app, **{**_OPEN, "expose_headers": _EXPOSED, **rules})
        if len(self._known) >= _CACHE_LIMIT:
            self._known.clear()
        self._known[name] = (time.monotonic() + _TRUSTED_SECONDS, guarded)
        return guarded


async def _rules(services: Services, name: str) -> dict[str, Any]:
    try:
        async with services.database.connection() as connection:
            served = await find_only_served(connection, name)
    except (psycopg.OperationalError, PoolTimeout):
        return {}
    rules = dict(served.section("http").get("cors") or {}) if served else {}
    return {"allow_origins": [], **rules} if rules else {}
