"""Custom routes, without a framework."""

from typing import Any

STARTED = {"value": "no"}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        STARTED["value"] = "yes"
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return
    if scope["path"] == "/site/echo":
        body = (await receive())["body"]
        headers = [
            (b"x-query", scope["query_string"]),
            (b"x-started", STARTED["value"].encode()),
            (b"set-cookie", b"one=1"),
            (b"set-cookie", b"two=2"),
        ]
        await _answer(send, 201, body, headers)
    elif scope["path"] == "/site/broken":
        await _answer(send, 500, b"sorry")
        raise RuntimeError("broken")
    else:
        await _answer(send, 404, b'{"custom": "not found"}', [(b"content-type", b"application/json")])


async def _answer(
    send: Any, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers or []})
    await send({"type": "http.response.body", "body": body})
