"""Bodies are JSON whatever their content type says (contract §2)."""

from starlette.types import ASGIApp, Receive, Scope, Send

_JSON = (b"content-type", b"application/json")
# What command-line clients send when nobody told them otherwise.
_UNSAID = b"application/x-www-form-urlencoded"


class AssumeJson:
    """Hands requests on as JSON whose client did not say what their body is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(assume_json(scope), receive, send)


def assume_json(scope: Scope) -> Scope:
    """The request as one whose body is JSON, unless it says that it is something else."""
    if scope["type"] != "http" or not _is_unsaid(scope):
        return scope
    others = [header for header in scope["headers"] if header[0] != b"content-type"]
    return {**scope, "headers": [*others, _JSON]}


def _is_unsaid(scope: Scope) -> bool:
    return all(name != b"content-type" or value == _UNSAID for name, value in scope["headers"])
