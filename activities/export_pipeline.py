"""Stages that overlap: rows are read, encoded and uploaded at the same time, each waiting for the slower one."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

_POLL_SECONDS = 0.2
_JOIN_SECONDS = 10.0


class _StoppedError(Exception):
    """The consumer has gone away."""


class _Handover(Generic[T]):
    """A bounded queue between two threads that ends with the producer's end or its error."""

    def __init__(self, size: int, stop: threading.Event) -> None:
        self._items: queue.Queue[T | BaseException | None] = queue.Queue(size)
        self._stop = stop

    def put(self, item: T | BaseException | None) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                return self._items.put(item, timeout=_POLL_SECONDS)
        raise _StoppedError

    def __iter__(self) -> Iterator[T]:
        while True:
            try:
                item = self._items.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if self._stop.is_set():
                    raise _StoppedError from None
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item


async def overlapped(
    source: Callable[[], AbstractContextManager[Iterable[T]]],
    transform: Callable[[Iterable[T]], Iterator[U]],
    *,
    buffered_inputs: int,
    buffered_outputs: int,
) -> AsyncGenerator[U, None]:
    """What `transform` makes of what `source` yields; each runs in a thread of its own, ahead of the consumer by
    at most the given number of items. Closing the iterator stops both threads before it returns.
    """
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    inputs: _Handover[T] = _Handover(buffered_inputs, stop)
    outputs: asyncio.Queue[U | BaseException | None] = asyncio.Queue(buffered_outputs)

    def read() -> None:
        try:
            with source() as items:
                for item in items:
                    inputs.put(item)
            inputs.put(None)
        except _StoppedError:
            return
        except BaseException as error:
            with contextlib.suppress(_StoppedError):
                inputs.put(error)

    def emit(item: U | BaseException | None) -> None:
        waiting = asyncio.run_coroutine_threadsafe(outputs.put(item), loop)
        while not stop.is_set():
            try:
                return waiting.result(_POLL_SECONDS)
            except TimeoutError:
                continue
            except FutureCancelledError:
                raise _StoppedError from None
        waiting.cancel()
        raise _StoppedError

    def work() -> None:
        try:
            for item in transform(inputs):
                emit(item)
            emit(None)
        except _StoppedError:
            return
        except BaseException as error:
            with contextlib.suppress(_StoppedError):
                emit(error)

    threads = [
        threading.Thread(target=target, name=f"export-{target.__name__}", daemon=True)
        for target in (read, work)
    ]
    for thread in threads:
        thread.start()
    try:
        while (item := await outputs.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        await asyncio.shield(
            asyncio.gather(*(asyncio.to_thread(thread.join, _JOIN_SECONDS) for thread in threads))
        )
