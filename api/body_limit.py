"""Refuses request bodies over a limit, by their announced length or while they arrive."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import TooLargeError


class BodyLimitMiddleware:
    """Answers 413 for a body over `limit_bytes`. Paths under `exempt` have a limit of their own."""

    def __init__(self, app: ASGIApp, limit_bytes: int, exempt: tuple[str, ...] = ()) -> None:
        self._app = app
        self._limit = limit_bytes
        self._exempt = exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (self._exempt and scope["path"].startswith(self._exempt)):
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limit:
            await self._refuse(receive, send)
            return
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise TooLargeError(self._detail())
            return message

        await self._app(scope, limited, send)

    def _detail(self) -> str:
        return f"Request body too large (limit: {self._limit} bytes)"

    async def _refuse(self, receive: Receive, send: Send) -> None:
        """Answer after reading what the client is still sending, up to ten times the limit: many clients look
        at the answer only then."""
        discarded, more = 0, True
        while more and discarded < 10 * self._limit:
            message = await receive()
            discarded += len(message.get("body", b""))
            more = message.get("more_body", False)
        body = b'{"detail":"%s"}' % self._detail().encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send(
            {"type": "http.response.start", "status": 413, "headers": [*headers, (b"connection", b"close")]}
        )
        await send({"type": "http.response.body", "body": body})
