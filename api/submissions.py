"""Bounds the transactions that wait for Temporal, so that a slow Temporal leaves connections for everybody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.errors import UnavailableError

_WAIT_SECONDS = 10.0


class Submissions:
    """At most `slots` submissions at once in this process; the next ones wait their turn, for a while."""

    def __init__(self, slots: int) -> None:
        self._slots = asyncio.Semaphore(slots)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold a slot.

        Raises:
            UnavailableError: none became free within 10 s; nothing was changed.
        """
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._slots.acquire()
        except TimeoutError:
            raise UnavailableError("Too many runs are being created at once; try again.") from None
        try:
            yield
        finally:
            self._slots.release()
