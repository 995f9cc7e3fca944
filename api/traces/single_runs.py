"""Requests of one run each, committed together (trace contract §5.4, `POST /runs` and `PATCH /runs/{id}`).

Clients without batching send every create and every patch alone. While a transaction of theirs is under way, the next
requests of the same key wait, and go into the next transaction together: the more come, the less each costs. Each is
answered after the commit that holds it.
"""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from api.authentication import Caller
from api.errors import UnavailableError
from api.services import Services
from api.traces.gate import WAIT_SECONDS, overloaded
from api.traces.submission import Submission
from api.traces.writing import store

_MAX_TOGETHER = 200

Key = tuple[UUID, str, UUID | None]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    submission: Submission
    stored: "asyncio.Future[None]"


class SingleRuns:
    """What waits for its commit in this process, by who may write what."""

    def __init__(self) -> None:
        self._waiting: dict[Key, list[_Waiting]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    async def store(self, services: Services, caller: Caller, submission: Submission) -> None:
        """Commit a submission, with others of the same key if there are any.

        Raises:
            ApiError: see `writing.store`; what is wrong with one fails none of the others.
            UnavailableError: its turn did not come within a few seconds.
        """
        key = (caller.tenant_id, caller.holder.scope, caller.holder.deployment_id)
        one = _Waiting(submission, asyncio.get_running_loop().create_future())
        if key in self._waiting:
            self._waiting[key].append(one)
        else:
            self._waiting[key] = [one]
            worker = asyncio.create_task(self._work(services, caller, key))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        await asyncio.wait({one.stored}, timeout=WAIT_SECONDS)
        # What is being committed is waited for, however long that takes.
        if not one.stored.done() and one in self._waiting.get(key, ()):
            self._waiting[key].remove(one)
            raise overloaded()
        await one.stored

    async def _work(self, services: Services, caller: Caller, key: Key) -> None:
        together: list[_Waiting] = []
        try:
            while self._waiting[key]:
                together, self._waiting[key] = (
                    self._waiting[key][:_MAX_TOGETHER],
                    self._waiting[key][_MAX_TOGETHER:],
                )
                await _commit(services, caller, together)
        finally:
            # Whoever still waits here does so because this process is ending.
            for one in (*together, *self._waiting.pop(key)):
                _end(one, UnavailableError("This process ends; try again."))


async def _commit(services: Services, caller: Caller, together: list[_Waiting]) -> None:
    changes = [change for one in together for change in one.submission.changes]
    try:
        async with services.ingest_gate.turn():
            await store(services, caller, Submission(changes))
    except Exception as error:
        if len(together) > 1 and not isinstance(error, UnavailableError):
            for one in together:
                await _commit(services, caller, [one])
            return
        for one in together:
            _end(one, error)
    for one in together:
        _end(one)


def _end(one: _Waiting, error: Exception | None = None) -> None:
    """Once; a client that left does not mind."""
    if one.stored.done():
        return
    if error is None:
        one.stored.set_result(None)
    else:
        one.stored.set_exception(error)
