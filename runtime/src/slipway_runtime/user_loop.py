"""The event loop in which user code runs: in a thread of its own, so that code which blocks it stops no heartbeat."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class UserCodeStuckError(Exception):
    """User code did not end in time after it was cancelled; its thread is still busy."""


class RunCancelledError(Exception):
    """The coroutine was cancelled inside the user loop."""


class UserLoop:
    """`start()`; then `await run(coroutine)` from any other loop."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="user-code", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def run(self, coroutine: Coroutine[Any, Any, T], *, cancel_seconds: float = 1.0) -> T:
        """The coroutine's result, computed in the user loop.

        Cancelling the caller cancels the coroutine and waits at most `cancel_seconds` for its end.

        Raises:
            UserCodeStuckError: it was cancelled and did not end in that time.
        """
        ended: concurrent.futures.Future[T] = concurrent.futures.Future()
        started: concurrent.futures.Future[asyncio.Task[None]] = concurrent.futures.Future()

        def start() -> None:
            started.set_result(self._loop.create_task(_pass_on(coroutine, ended)))

        self._loop.call_soon_threadsafe(start)
        waiting = asyncio.wrap_future(ended)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            started.add_done_callback(lambda task: self._loop.call_soon_threadsafe(task.result().cancel))
            if not (await asyncio.wait([waiting], timeout=cancel_seconds))[0]:
                # Nobody will ask how it ended.
                waiting.add_done_callback(lambda late: late.cancelled() or late.exception())
                raise UserCodeStuckError from None
            raise

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        # Nodes that are plain functions run in these threads, and so do the saver's serialisations.
        self._loop.set_default_executor(ThreadPoolExecutor(self._threads, "user-code"))
        self._loop.run_forever()


async def _pass_on(coroutine: Coroutine[Any, Any, T], ended: "concurrent.futures.Future[T]") -> None:
    try:
        ended.set_result(await coroutine)
    except asyncio.CancelledError as error:
        # Not `cancel()`: whoever waits could not tell it from its own cancellation.
        ended.set_exception(RunCancelledError())
        raise error
    except BaseException as error:
        ended.set_exception(error)
