"""What langgraph.json's `http` makes of a request: groups that are off, headers that runs see (contract §2, §7)."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any
from uuid import uuid4

import structlog
from fastapi import Request

from api.errors import NotFoundError
from storage.served import ServedDeployment

REQUEST_ID = "langgraph_request_id"
# Never copied by a pattern: only by their own name.
_CREDENTIALS = frozenset({"authorization", "x-api-key", "x-tenant-id", "cookie", "proxy-authorization"})
_MAX_REQUEST_ID = 256
# Paths of the group `meta`; /ok is served always.
_META = frozenset({"docs", "info", "metrics", "openapi.json"})

log = structlog.get_logger()


def require_enabled(deployment: ServedDeployment, request: Request) -> None:
    """Whether the request's group of endpoints is on.

    Raises:
        NotFoundError: `http.disable_<group>` switches it off.
    """
    http = deployment.section("http")
    if any(http.get(f"disable_{group}") for group in _groups(_path(request))):
        raise NotFoundError("Not Found")


def configurable_of(deployment: ServedDeployment, request: Request) -> dict[str, Any]:
    """What a request adds to `config.configurable` of the runs that it creates."""
    request_id = request.headers.get("x-request-id", "")[:_MAX_REQUEST_ID] or str(uuid4())
    return {
        **_copied(request.headers, deployment.section("http").get("configurable_headers") or {}),
        REQUEST_ID: request_id,
    }


def log_headers(deployment: ServedDeployment, request: Request) -> None:
    """One line for a request with the headers that `http.logging_headers` names; never a credential."""
    rule = deployment.section("http").get("logging_headers")
    if rule:
        shown = _copied(request.headers, rule)
        log.info(
            "request",
            deployment_id=str(deployment.scope.deployment_id),
            tenant_id=str(deployment.scope.tenant_id),
            method=request.scope.get("method", "GET"),
            path=_path(request),
            headers={name: value for name, value in shown.items() if name not in _CREDENTIALS},
        )


def configurable_of_user(user: Mapping[str, Any]) -> dict[str, Any]:
    """What runs see of the user whom the project's authentication recognised."""
    return {
        "langgraph_auth_user": dict(user),
        "langgraph_auth_user_id": user["identity"],
        "langgraph_auth_permissions": list(user.get("permissions") or []),
    }


def _path(request: Request) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def _groups(path: str) -> list[str]:
    """Groups that a path belongs to; runs and crons of a thread belong to threads as well."""
    parts = path.strip("/").split("/")
    groups = [(".well-known" in parts[0] and "a2a") or (parts[0] in _META and "meta") or parts[0]]
    if "runs" in parts[:3]:
        groups.append("runs")
    if "crons" in parts:
        groups.append("crons")
    return groups


def _copied(headers: Mapping[str, str], rule: Mapping[str, Any]) -> dict[str, str]:
    includes = [pattern.lower() for pattern in rule.get("includes") or []]
    excludes = [pattern.lower() for pattern in rule.get("excludes") or []]

    def is_copied(name: str) -> bool:
        if name in _CREDENTIALS:
            return name in includes
        return _matches(name, includes) and not _matches(name, excludes)

    return {name.lower(): value for name, value in headers.items() if is_copied(name.lower())}


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
