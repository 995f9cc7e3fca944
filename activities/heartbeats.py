"""Heartbeats of activities that wait for something."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from temporalio import activity

_INTERVAL_SECONDS = 1.0


@contextlib.asynccontextmanager
async def heartbeats() -> AsyncIterator[None]:
    """Tell Temporal that this activity lives, which is also how it hears that it was cancelled."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(_INTERVAL_SECONDS)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
