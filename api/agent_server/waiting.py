"""Waiting for a run's end over HTTP: white space as a heartbeat, then the final state (contract §3.4)."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import orjson
from fastapi.responses import StreamingResponse

from api.agent_server.streams.watching import watched
from api.services import Services
from storage.runs import UNFINISHED, Runs
from storage.scope import DeploymentScope

HEARTBEAT_SECONDS = 5.0


def stream_end(
    services: Services, scope: DeploymentScope, thread_id: UUID, run_id: UUID, headers: dict[str, str]
) -> StreamingResponse:
    """The same wait, which ends with an empty object: the body of `cancel?wait=1`."""

    async def body() -> AsyncIterator[bytes]:
        async for chunk in _wait(services, scope, thread_id, run_id):
            yield chunk if chunk == b"\n" else b"{}"

    return StreamingResponse(body(), media_type="application/json", headers=headers)


def stream_outcome(
    services: Services,
    scope: DeploymentScope,
    thread_id: UUID,
    run_id: UUID,
    headers: dict[str, str],
    *,
    cancel_on_disconnect: bool = False,
) -> StreamingResponse:
    """An answer that begins at once and ends with the run: the body of `wait` and `join`.

    With `cancel_on_disconnect` the run is cancelled if the client goes before it has ended.
    """

    async def body() -> AsyncIterator[bytes]:
        async with watched(services, scope, thread_id, run_id, cancels=cancel_on_disconnect) as watch:
            async for chunk in _wait(services, scope, thread_id, run_id):
                if chunk != b"\n":
                    watch.end()
                yield chunk

    return StreamingResponse(body(), media_type="application/json", headers=headers)


async def _wait(
    services: Services, scope: DeploymentScope, thread_id: UUID, run_id: UUID
) -> AsyncIterator[bytes]:
    with services.notifications.subscribe(str(thread_id), by_events=False) as changes:
        while True:
            async with services.database.connection() as connection:
                row = await Runs(connection, scope).outcome(thread_id, run_id)
            if row is None or row["status"] not in UNFINISHED:
                yield orjson.dumps(_body(row))
                return
            if not await changes.wait(HEARTBEAT_SECONDS):
                yield b"\n"


def _body(row: dict[str, Any] | None) -> Any:
    if row is None:
        return {"__error__": {"error": "RunNotFound", "message": "The run was deleted before it ended."}}
    if row["error"]:
        return {"__error__": row["error"]}
    interrupts = [item for items in row["interrupts"].values() for item in items]
    if interrupts and row["thread_status"] == "interrupted":
        values = row["values"] if isinstance(row["values"], dict) else {}
        return {**values, "__interrupt__": interrupts}
    return row["values"]
