"""All runs of a thread in one classic stream, open-ended (agent server contract §4)."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import orjson
from fastapi.responses import StreamingResponse
from psycopg.rows import DictRow

from api.agent_server.streams.classic import ENDED, ClassicFrames, frame
from api.agent_server.streams.following import HEARTBEAT, STREAM_HEADERS, following
from api.agent_server.streams.rating import rating_links
from api.services import Services
from storage.runs import Runs
from storage.scope import DeploymentScope

THREAD_MODES = ("run_modes", "lifecycle", "state_update")


def stream_thread(
    services: Services, scope: DeploymentScope, thread_id: UUID, modes: frozenset[str], after: int
) -> StreamingResponse:
    """The stream as an answer that begins at once and does not end by itself."""
    return StreamingResponse(
        _frames(services, scope, thread_id, modes, after),
        media_type="text/event-stream",
        headers=STREAM_HEADERS,
    )


async def _frames(
    services: Services, scope: DeploymentScope, thread_id: UUID, modes: frozenset[str], after: int
) -> AsyncIterator[bytes]:
    translators: dict[UUID, tuple[ClassicFrames, tuple[str, ...]]] = {}
    # The headers' arrival means that nothing from now on is missed.
    yield HEARTBEAT
    async with following(services, scope, thread_id, after) as pages:
        async for rows in pages:
            if not rows:
                yield HEARTBEAT
                continue
            pieces = []
            for row in rows:
                if "run_modes" in modes:
                    translator, keys = await _translator_of(
                        services, scope, thread_id, row["run_id"], translators
                    )
                    pieces.append(translator.of(row, await rating_links(services, scope, row, keys)))
                pieces.append(_own_frames(row, modes))
                if row["event"] == ENDED:
                    translators.pop(row["run_id"], None)
            if piece := b"".join(pieces):
                yield piece


async def _translator_of(
    services: Services,
    scope: DeploymentScope,
    thread_id: UUID,
    run_id: UUID,
    translators: dict[UUID, tuple[ClassicFrames, tuple[str, ...]]],
) -> tuple[ClassicFrames, tuple[str, ...]]:
    """What each run asked to be streamed, and rated by; one that is no more shows only that it began and ended."""
    if run_id not in translators:
        async with services.database.connection() as connection:
            row = await Runs(connection, scope).get(thread_id, run_id)
        kwargs: dict[str, Any] = row["kwargs"] if row else {"stream_mode": [], "subgraphs": False}
        frames = ClassicFrames(kwargs["stream_mode"], bool(kwargs["subgraphs"]))
        translators[run_id] = frames, tuple(kwargs.get("feedback_keys") or ())
    return translators[run_id]


def _own_frames(row: DictRow, modes: frozenset[str]) -> bytes:
    if "lifecycle" in modes and row["event"] in ("running", ENDED):
        data = {"run_id": str(row["run_id"]), **orjson.loads(row["data"])}
        return frame("lifecycle", orjson.dumps({"event": "running", **data}), row["seq"])
    if "state_update" in modes and row["event"] == "values" and not row["namespace"]:
        return frame("state_update", row["data"].encode(), row["seq"])
    return b""
