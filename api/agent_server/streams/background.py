"""Work that outlives the request which asked for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger()

_tasks: set[asyncio.Task[None]] = set()


def run_in_background(work: Coroutine[Any, Any, None]) -> None:
    """Start `work`; what it raises is logged. For requests whose client has gone: their own task is cancelled."""
    task = asyncio.create_task(_logged(work))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:
        log.warning("background_work_failed", error=str(error))
