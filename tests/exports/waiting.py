"""Waiting for conditions, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], Awaitable[T]], timeout_seconds: float = 60.0) -> T:
    """The first true answer of `condition`."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        answer = await condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {timeout_seconds} s"
        await asyncio.sleep(0.02)
