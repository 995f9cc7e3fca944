"""Keeping a listener's compute at what the database says should run, whatever came between."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

import structlog

from activities.compute.protocol import CannotStartError, Compute
from storage.database import Database
from storage.deployments import get_deployment
from storage.listeners import report_version
from storage.revisions import get_revision
from storage.worker_sets import WorkerSet, drain_seconds_of, unwant_abandoned, wanted_workers
from workflows.messages.rollout import TERMINAL

log = structlog.get_logger()

_INTERVAL_SECONDS = 5.0
# For a set whose row is gone: its deployment was deleted.
_SHORT_DRAIN_SECONDS = 10.0


class Reconciler:
    """After a restart, and whenever somebody changed a row or ended a rollout by force: run what should run and
    nothing else. Each look is also the listener's sign of life, so nothing slow is waited for."""

    def __init__(self, database: Database, listener_id: UUID, version: str, compute: Compute) -> None:
        self._database = database
        self._listener_id = listener_id
        self._version = version
        self._compute = compute
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Look for ever; an outage only delays."""
        while True:
            try:
                await self.look()
            except Exception as error:
                log.warning("reconcile_failed", error=str(error)[:300])
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def look(self) -> None:
        """Compare once, and begin what is to be done."""
        running = await self._compute.running()
        async with self._database.connection() as connection:
            await report_version(connection, self._listener_id, self._version)
            for released in await unwant_abandoned(connection, self._listener_id, TERMINAL):
                log.info("workers_no_longer_wanted", worker_set_id=str(released))
            wanted = {
                str(worker_set.id): worker_set
                for worker_set in await wanted_workers(connection, self._listener_id)
            }
            drains = await drain_seconds_of(
                connection, [UUID(found) for found in running if found not in wanted]
            )
        for worker_set_id, worker_set in wanted.items():
            if worker_set_id in running:
                self._begin(worker_set_id, self._compute.scale(worker_set))
            else:
                self._begin(worker_set_id, self._start(worker_set))
        for worker_set_id in running:
            if worker_set_id not in wanted:
                drain = drains.get(UUID(worker_set_id), _SHORT_DRAIN_SECONDS)
                self._begin(worker_set_id, self._compute.stop(worker_set_id, drain))

    def _begin(self, worker_set_id: str, step: Coroutine[Any, Any, None]) -> None:
        """One thing at a time for each set."""
        if worker_set_id in self._under_way:
            step.close()
            return

        def ended(task: asyncio.Task[None]) -> None:
            del self._under_way[worker_set_id]
            if not task.cancelled() and (error := task.exception()):
                log.warning("reconcile_failed", worker_set_id=worker_set_id, error=str(error)[:300])

        task = self._under_way[worker_set_id] = asyncio.create_task(step)
        task.add_done_callback(ended)

    async def _start(self, worker_set: WorkerSet) -> None:
        async with self._database.connection() as connection:
            deployment = await get_deployment(connection, worker_set.tenant_id, worker_set.deployment_id)
            revision = await get_revision(
                connection, worker_set.tenant_id, worker_set.deployment_id, worker_set.revision_id
            )
        if deployment is None or revision is None:
            return
        try:
            await self._compute.start(worker_set, deployment, revision)
            log.info("workers_started", revision_id=str(revision.id), worker_set_id=str(worker_set.id))
        except CannotStartError as error:
            log.error("workers_not_started", revision_id=str(revision.id), error=str(error))
