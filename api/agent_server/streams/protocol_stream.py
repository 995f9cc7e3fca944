"""One subscription of the streaming protocol: events of a thread, from a number on, for ever (contract §1.6)."""

from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import orjson
from psycopg.rows import DictRow

from api.agent_server.streams.commands import failure
from api.agent_server.streams.following import HEARTBEAT, following
from api.agent_server.streams.protocol_events import Event, Selection, encode, events_of, timestamp_ms
from api.services import Services
from storage.scope import DeploymentScope
from storage.thread_events import ThreadEvents, first_seq


class ResumeGapError(Exception):
    """Events that follow the client's number are no longer kept."""

    def __init__(self, since: int, oldest: int) -> None:
        super().__init__(f"Events after {since} are no longer kept; the oldest that is kept is {oldest}.")
        self.since = since
        self.oldest = oldest

    def answer(self, command_id: int | None = None) -> dict[str, Any]:
        return failure(command_id, "resume_gap", str(self), since=self.since, min_available_seq=self.oldest)


async def starting_point(
    services: Services, scope: DeploymentScope, thread_id: UUID, since: int | None
) -> int:
    """The number after which a subscription begins: `since`, or just before the oldest event that is kept.

    Raises:
        ResumeGapError: events between `since` and the oldest are gone.
    """
    async with services.database.connection() as connection:
        events = ThreadEvents(connection, scope)
        # In this order: the first event may be written in between, and must not be taken for one that is gone.
        newest = await events.newest_seq(thread_id) or 0
        oldest = await events.oldest(thread_id)
        # Numbers that were given, but whose events are all swept away, are gone too.
        first = first_seq(oldest) if oldest else newest + 1
    if since is None:
        return first - 1
    if since < first - 1:
        raise ResumeGapError(since, first)
    return since


async def selected_events(
    services: Services, scope: DeploymentScope, thread_id: UUID, selection: Selection, after: int
) -> AsyncGenerator[list[tuple[Event, bytes]], None]:
    """Matching events and their JSON, page by page; an empty page for every silence of 5 s.

    Raises:
        ResumeGapError: the reader was so slow that events before it were swept away.
    """
    async with following(services, scope, thread_id, after) as pages:
        async for rows in pages:
            if not rows:
                yield []
                continue
            if first_seq(rows[0]) > after + 1:
                raise ResumeGapError(after, first_seq(rows[0]))
            if chosen := _chosen(rows, selection, after):
                yield chosen
            after = rows[-1]["seq"]


async def sse_frames(
    services: Services, scope: DeploymentScope, thread_id: UUID, selection: Selection, after: int
) -> AsyncGenerator[bytes, None]:
    """The same as server-sent events. Its first bytes are sent at once: they tell the client that it is subscribed."""
    yield HEARTBEAT
    try:
        async for page in selected_events(services, scope, thread_id, selection, after):
            yield b"".join(_frame(event, text) for event, text in page) if page else HEARTBEAT
    except ResumeGapError as gap:
        yield b"event: error\ndata: %s\n\n" % orjson.dumps(gap.answer())


def _chosen(rows: list[DictRow], selection: Selection, after: int) -> list[tuple[Event, bytes]]:
    return [
        (event, encode(event, timestamp_ms(row)))
        for row in rows
        for event in events_of(row)
        if event.seq > after and selection.matches(event)
    ]


def _frame(event: Event, text: bytes) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.method.encode(), text)
