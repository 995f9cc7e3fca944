"""Holds back ingestion when more is under way than memory and the database take."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.errors import UnavailableError


class IngestGate:
    """At most `concurrent` requests work, and at most `held_bytes` of bodies wait or work.

    What is beyond is told to come back: SDKs keep their batch and try again.
    """

    def __init__(self, concurrent: int, held_bytes: int) -> None:
        self._slots = asyncio.Semaphore(concurrent)
        self._limit = held_bytes
        self._held = 0

    @asynccontextmanager
    async def enter(self, size_bytes: int) -> AsyncIterator[None]:
        """Raises UnavailableError (503) at once if the bodies under way would exceed the limit."""
        if self._held and self._held + size_bytes > self._limit:
            raise UnavailableError("Too many traces are being ingested; try again.", retry_after_seconds=2)
        self._held += size_bytes
        try:
            async with self._slots:
                yield
        finally:
            self._held -= size_bytes
