"""Custom authentication: the project's `auth.path`, asked who a request comes from (agent server contract §7)."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from slipway_runtime.auth_rules import AuthRules
from slipway_runtime.graphs import import_object
from slipway_runtime.messages import CallKind
from slipway_runtime.project import Project, ProjectError

# What a handler may ask for by its parameters' names.
_PARAMETERS = ("headers", "authorization", "path", "method", "path_params", "query_params", "scopes")


class CustomAuth:
    """The project's authenticator. A project without one has none of these."""

    def __init__(self, authenticate: Callable[..., Any], rules: AuthRules) -> None:
        self.rules = rules
        self._authenticate = authenticate
        self._wanted = _wanted(authenticate)

    @property
    def answers(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[Any]]]:
        return {CallKind.AUTHENTICATE: self.authenticate, CallKind.AUTHORIZE: self.rules.authorize}

    async def authenticate(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """`{"user": {"identity", "permissions", ...}}`, or `{"status", "detail"}` of the handler's HTTPException.

        `request`: headers (names in lower case), path, method, path_params, query_params.
        """
        values = {
            **request,
            "headers": {name.encode(): value.encode() for name, value in request["headers"].items()},
            "authorization": request["headers"].get("authorization"),
            "scopes": [],
        }
        try:
            made = self._authenticate(**{name: values[name] for name in self._wanted})
            return {"user": _user(await made if inspect.isawaitable(made) else made)}
        except Exception as error:
            status = getattr(error, "status_code", None)
            if not isinstance(status, int):
                raise
            return {"status": status, "detail": str(getattr(error, "detail", "") or "Unauthorized")}


def load_auth(project: Project) -> CustomAuth | None:
    """The authenticator that `auth.path` names; runs user code.

    Raises:
        ProjectError: it names no Auth object, or one that asks for what is not supported.
    """
    path = project.options.auth.get("path")
    if not path:
        return None
    module, _, name = path.rpartition(":")
    found = import_object("auth.path", module, name, project.folder)
    authenticate = getattr(found, "_authenticate_handler", None)
    if authenticate is None:
        raise ProjectError(
            f"`auth.path`: {name} is no langgraph_sdk.Auth with an @auth.authenticate handler."
        )
    return CustomAuth(authenticate, AuthRules(found))


def _wanted(authenticate: Callable[..., Any]) -> list[str]:
    wanted = []
    for parameter in inspect.signature(authenticate).parameters.values():
        if parameter.name in _PARAMETERS:
            wanted.append(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            raise ProjectError(
                f"`auth.path`: the @auth.authenticate handler asks for {parameter.name!r}, which is not supported;"
                f" it may ask for {', '.join(_PARAMETERS)}."
            )
    return wanted


def _user(made: Any) -> dict[str, Any]:
    """What a handler returns: an identity, a mapping with one, or an object with one."""
    if isinstance(made, str):
        made = {"identity": made}
    if not isinstance(made, Mapping):
        names = ("identity", "permissions", "display_name", "is_authenticated")
        made = {name: getattr(made, name) for name in names if hasattr(made, name)}
    if not isinstance(made.get("identity"), str):
        raise TypeError("the @auth.authenticate handler returned no identity")
    permissions = [str(permission) for permission in made.get("permissions") or []]
    shown = {"display_name": made["identity"], "is_authenticated": True}
    return {**shown, **made, "permissions": permissions}
