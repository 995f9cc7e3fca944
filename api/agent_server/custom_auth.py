"""Who calls a deployment that has its own authentication: asked of the project's handler, where the revision runs.

Contract §7. The handler sees headers, path, method and query; its answer is kept for as long as `auth.cache` says.
"""

import time
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from api.agent_server.revision_calls import RevisionCallError, call_revision
from api.errors import ApiError, InvalidError, UnauthorizedError, UnavailableError
from api.services import Services
from storage.served import ServedDeployment
from workflows.messages.revision import CallKind

_DEFAULT_TTL_SECONDS = 60.0
_DEFAULT_SIZE = 1_000
_REFUSALS = range(400, 500)


class HandlerRefusalError(ApiError):
    """The handler's own answer: the status and the text of its HTTPException."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class _Known:
    until: float
    user: dict[str, Any]


class CustomAuthenticator:
    """Asks handlers, and remembers users for as long as their deployment allows; one per process."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], _Known] = {}

    async def user_of(
        self, services: Services, deployment: ServedDeployment, request: Request
    ) -> dict[str, Any]:
        """The user that the handler recognises: `identity`, `permissions` and whatever else it returned.

        Raises:
            HandlerRefusalError: the handler refused with a status of its own.
            UnauthorizedError: the handler failed.
            UnavailableError: no worker of the revision answered.
        """
        cache = deployment.section("auth").get("cache") or {}
        key = _cache_key(deployment, request, cache)
        known = self._known.get(key) if key else None
        if known and known.until > time.monotonic():
            return known.user
        user = await _ask(services, deployment, request)
        if key:
            if len(self._known) >= cache.get("max_size", _DEFAULT_SIZE):
                self._known.clear()
            until = time.monotonic() + cache.get("ttl_seconds", _DEFAULT_TTL_SECONDS)
            self._known[key] = _Known(until, user)
        return user


def _cache_key(
    deployment: ServedDeployment, request: Request, cache: dict[str, Any]
) -> tuple[Any, ...] | None:
    """None where nothing may be remembered: without configured keys, or where a request has none of them."""
    values = tuple(request.headers.get(name) for name in cache.get("cache_keys") or [])
    return (deployment.revision_id, values) if any(values) else None


async def _ask(services: Services, deployment: ServedDeployment, request: Request) -> dict[str, Any]:
    question = {
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "path": request.scope["path"].removeprefix(request.scope.get("root_path", "")),
        "method": request.scope.get("method", "GET"),
        "path_params": {
            name: str(value) for name, value in request.path_params.items() if name != "deployment_name"
        },
        "query_params": dict(request.query_params),
    }
    try:
        answer = await call_revision(services, deployment, CallKind.AUTHENTICATE, question)
    except RevisionCallError as error:
        raise UnauthorizedError("Authentication failed.") from error
    except InvalidError as error:
        raise UnavailableError(f"Authentication is not possible now: {error.detail}", 2) from error
    if status := answer.get("status"):
        raise HandlerRefusalError(status if status in _REFUSALS else 401, str(answer.get("detail")))
    user: dict[str, Any] = answer["user"]
    return user
