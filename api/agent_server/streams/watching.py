"""Runs that are cancelled when their client goes (docs/architecture/streams.md, Leaving)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import structlog

from api.agent_server.run_cancellation import cancel_runs
from api.agent_server.streams.background import run_in_background
from api.errors import NotFoundError
from api.services import Services
from storage.run_watchers import LEASE_SECONDS, RunWatchers
from storage.scope import DeploymentScope
from workflows.messages.thread import CancelAction

log = structlog.get_logger()


class Watch:
    """A client's wait for a run. `end()`: it saw the end; from then on its going means nothing."""

    def __init__(self) -> None:
        self.ended = False

    def end(self) -> None:
        self.ended = True


@contextlib.asynccontextmanager
async def watched(
    services: Services, scope: DeploymentScope, thread_id: UUID, run_id: UUID, *, cancels: bool
) -> AsyncIterator[Watch]:
    """While a client is connected. With `cancels`, a client that goes before the end takes the run with it.

    Stored, and renewed, so that a sweep does it should this process die. Costs nothing without `cancels`.
    """
    watch = Watch()
    if not cancels:
        yield watch
        return
    watcher_id = uuid4()
    renewing = asyncio.create_task(_keep_renewing(services, scope, watcher_id, run_id))
    try:
        # A client may go in this very moment.
        await _begin(services, scope, watcher_id, run_id)
        yield watch
    finally:
        renewing.cancel()
        run_in_background(_leave(services, scope, thread_id, run_id, watcher_id, gone=not watch.ended))


async def _begin(services: Services, scope: DeploymentScope, watcher_id: UUID, run_id: UUID) -> None:
    """Take the place of the watcher that was stored with the run."""
    async with services.database.transaction() as connection:
        watchers = RunWatchers(connection, scope)
        await watchers.renew(watcher_id, run_id)
        await watchers.remove(run_id)


async def _keep_renewing(services: Services, scope: DeploymentScope, watcher_id: UUID, run_id: UUID) -> None:
    while True:
        await asyncio.sleep(LEASE_SECONDS / 3)
        try:
            await _renew(services, scope, watcher_id, run_id)
        except Exception as error:
            log.warning("watcher_not_renewed", run_id=str(run_id), error=str(error))


async def _renew(services: Services, scope: DeploymentScope, watcher_id: UUID, run_id: UUID) -> None:
    async with services.database.connection() as connection:
        await RunWatchers(connection, scope).renew(watcher_id, run_id)


async def _leave(
    services: Services, scope: DeploymentScope, thread_id: UUID, run_id: UUID, watcher_id: UUID, *, gone: bool
) -> None:
    """The row goes last: if the cancel cannot be asked for now, the sweep asks for it."""
    if gone:
        with contextlib.suppress(NotFoundError):
            await cancel_runs(services, scope, CancelAction.INTERRUPT, thread_id=thread_id, run_ids=[run_id])
    async with services.database.transaction() as connection:
        watchers = RunWatchers(connection, scope)
        await watchers.remove(watcher_id)
        await watchers.remove(run_id)
