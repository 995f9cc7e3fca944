"""Reading a thread's events for ever: replay and live are the same query."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from uuid import UUID

from psycopg.rows import DictRow

from api.services import Services
from storage.scope import DeploymentScope
from storage.thread_events import ThreadEvents

HEARTBEAT_SECONDS = 5.0
HEARTBEAT = b": heartbeat\n\n"
STREAM_HEADERS = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}

Pages = AsyncIterator[list[DictRow]]


@contextlib.asynccontextmanager
async def following(
    services: Services, scope: DeploymentScope, thread_id: UUID, after: int, run_id: UUID | None = None
) -> AsyncIterator[Pages]:
    """Pages of rows after `after`, in order, as they are written; an empty page for every silence of 5 s.

    A page is bounded, and the next one is read when this one was taken: a slow reader costs one page of memory.
    """
    pages = _pages(services, scope, thread_id, after, run_id)
    async with contextlib.aclosing(pages):
        yield pages


async def _pages(
    services: Services, scope: DeploymentScope, thread_id: UUID, after: int, run_id: UUID | None
) -> AsyncGenerator[list[DictRow], None]:
    with services.notifications.subscribe(str(thread_id)) as changes:
        while True:
            async with services.database.connection() as connection:
                rows = await ThreadEvents(connection, scope).page(thread_id, after, run_id)
            if rows:
                after = rows[-1]["seq"]
                yield rows
            elif not await changes.wait(HEARTBEAT_SECONDS):
                yield []
