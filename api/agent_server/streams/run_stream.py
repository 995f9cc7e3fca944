"""One run's classic stream: from any place in it, while it runs or after."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import orjson
from fastapi.responses import StreamingResponse

from api.agent_server.streams.classic import ENDED, ClassicFrames, end_frames, frame
from api.agent_server.streams.following import HEARTBEAT, STREAM_HEADERS, following
from api.agent_server.streams.rating import rating_links
from api.agent_server.streams.watching import watched
from api.services import Services
from storage.runs import UNFINISHED, Runs
from storage.scope import DeploymentScope
from storage.thread_events import ThreadEvents, first_seq


@dataclass(frozen=True)
class RunView:
    """What a client wants to see of a run. `after`: the id it saw last; None for all of it."""

    thread_id: UUID
    run_id: UUID
    modes: frozenset[str]
    subgraphs: bool
    after: int | None = None
    cancel_on_disconnect: bool = False
    feedback_keys: tuple[str, ...] = ()


def stream_run(
    services: Services, scope: DeploymentScope, view: RunView, headers: dict[str, str]
) -> StreamingResponse:
    """The stream as an answer that begins at once."""
    return StreamingResponse(
        _watched(services, scope, view),
        media_type="text/event-stream",
        headers={**STREAM_HEADERS, **headers},
    )


async def _watched(services: Services, scope: DeploymentScope, view: RunView) -> AsyncIterator[bytes]:
    """The frames; if the reader goes before the run's end, and asked for it, the run is cancelled."""
    frames = _frames(services, scope, view)
    async with (
        watched(services, scope, view.thread_id, view.run_id, cancels=view.cancel_on_disconnect) as watch,
        contextlib.aclosing(frames),
    ):
        async for piece in frames:
            yield piece
        watch.end()


async def _frames(services: Services, scope: DeploymentScope, view: RunView) -> AsyncGenerator[bytes, None]:
    translator = ClassicFrames(view.modes, view.subgraphs)
    shown_after = view.after or 0
    if shown_after and (gap := await _gap(services, scope, view)):
        yield gap
        return
    start = 0 if translator.needs_beginning else shown_after
    async with following(services, scope, view.thread_id, start, view.run_id) as pages:
        async for rows in pages:
            if not rows:
                if await _has_ended(services, scope, view):
                    return
                yield HEARTBEAT
                continue
            links = await rating_links(services, scope, rows[-1], view.feedback_keys)
            frames = [(row["seq"], translator.of(row, links)) for row in rows]
            if piece := b"".join(text for seq, text in frames if seq > shown_after):
                yield piece
            if rows[-1]["event"] == ENDED:
                return


async def _has_ended(services: Services, scope: DeploymentScope, view: RunView) -> bool:
    """Whether a silent run is no more: its events were swept away, or read to the end before, or it was deleted."""
    async with services.database.connection() as connection:
        row = await Runs(connection, scope).get(view.thread_id, view.run_id)
    return row is None or row["status"] not in UNFINISHED


async def _gap(services: Services, scope: DeploymentScope, view: RunView) -> bytes | None:
    """What to say to a reader whose place was swept away."""
    assert view.after is not None
    async with services.database.connection() as connection:
        oldest = await ThreadEvents(connection, scope).oldest(view.thread_id)
    if oldest is None or first_seq(oldest) <= view.after + 1:
        return None
    message = f"Events after {view.after} are no longer kept; the oldest that is kept is {first_seq(oldest)}."
    error = {"error": "resume_gap", "message": message}
    frames = [frame("error", orjson.dumps(error)), frame(*end_frames({"status": "error"})[-1])]
    return b"".join(frames)
