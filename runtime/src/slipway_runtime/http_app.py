"""Custom routes: the project's own ASGI application, `http.app` (agent server contract §7)."""

import asyncio
import base64
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from slipway_runtime.graphs import import_object
from slipway_runtime.messages import CallKind
from slipway_runtime.project import Project, ProjectError

log = logging.getLogger(__name__)

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
_STARTUP_SECONDS = 60.0

Asgi = Callable[..., Awaitable[None]]
Message = MutableMapping[str, Any]


class ResponseTooLargeError(Exception):
    """An answer of a custom route is over the limit."""


class CustomApp:
    """Answers one request at a time for each call; `start` runs the application's startup first."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._state: dict[str, Any] = {}
        self._lifespan: asyncio.Task[None] | None = None

    @property
    def answers(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[Any]]]:
        return {CallKind.HTTP: self.handle}

    async def start(self) -> None:
        """Run the application's startup, if it has one.

        Raises:
            ProjectError: it failed.
        """
        started: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        begun = False

        async def receive() -> Message:
            nonlocal begun
            if begun:
                await asyncio.Event().wait()
            begun = True
            return {"type": "lifespan.startup"}

        async def send(message: Message) -> None:
            failed = message["type"] == "lifespan.startup.failed"
            if not started.done():
                started.set_result(str(message.get("message") or "startup failed") if failed else None)

        async def live() -> None:
            # An application without a lifespan raises, which is how ASGI says so.
            with contextlib.suppress(Exception):
                await self._app(
                    {"type": "lifespan", "asgi": {"version": "3.0"}, "state": self._state}, receive, send
                )
            if not started.done():
                started.set_result(None)

        self._lifespan = asyncio.create_task(live())
        async with asyncio.timeout(_STARTUP_SECONDS):
            if failure := await started:
                raise ProjectError(f"`http.app`: {failure[:1_000]}")

    async def handle(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """`{"status", "headers": [[name, value]], "body": base64}`.

        `request`: method, path, query (text), headers (list of pairs), body (base64), root_path.
        """
        body = base64.b64decode(request["body"])
        sent: list[Message] = []
        size = 0
        arrived = False

        async def receive() -> Message:
            nonlocal arrived
            if arrived:
                return {"type": "http.disconnect"}
            arrived = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal size
            size += len(message.get("body", b""))
            if size > MAX_RESPONSE_BYTES:
                raise ResponseTooLargeError(f"the answer is larger than {MAX_RESPONSE_BYTES} bytes")
            sent.append(message)

        try:
            await self._app(self._scope(request), receive, send)
        except ResponseTooLargeError:
            raise
        except Exception:
            # Frameworks answer a failure of theirs and then raise it, for the server's log.
            if not sent:
                raise
            log.warning("custom_route_failed path=%s", request["path"], exc_info=True)
        start = next(message for message in sent if message["type"] == "http.response.start")
        content = b"".join(
            message.get("body", b"") for message in sent if message["type"] == "http.response.body"
        )
        return {
            "status": start["status"],
            "headers": [
                [name.decode("latin-1"), value.decode("latin-1")] for name, value in start["headers"]
            ],
            "body": base64.b64encode(content).decode(),
        }

    def _scope(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request["method"],
            "scheme": "http",
            "path": request["path"],
            "raw_path": request["path"].encode(),
            "query_string": request["query"].encode("latin-1"),
            "root_path": "",
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1")) for name, value in request["headers"]
            ],
            "client": None,
            "server": None,
            "state": dict(self._state),
        }


async def load_app(project: Project) -> CustomApp | None:
    """The application that `http.app` names, started; runs user code.

    Raises:
        ProjectError: it names no application, or its startup failed.
    """
    path = project.options.http.get("app")
    if not path:
        return None
    module, _, name = path.rpartition(":")
    found = import_object("http.app", module, name, project.folder)
    if not callable(found):
        raise ProjectError(f"`http.app`: {name} is no ASGI application.")
    app = CustomApp(found)
    await app.start()
    return app
