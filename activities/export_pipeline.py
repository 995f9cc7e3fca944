"""Stages that overlap: rows are read, encoded and uploaded at the same time, each waiting for the slower one."""

import asyncio
import contextlib
import threading
from collections import deque
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
    """A queue between two threads, bounded by size, that ends with the producer's end or its error."""

    def __init__(self, limit: int, size_of: Callable[[T], int], stop: threading.Event) -> None:
        self._limit = limit
        self._size_of = size_of
        self._stop = stop
        self._items: deque[T] = deque()
        self._held = 0
        self._ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, item: T) -> None:
        """Add an item as soon as there is room for it, or nothing else."""
        size = self._size_of(item)
        with self._changed:
            self._wait_for(lambda: not self._held or self._held + size <= self._limit)
            self._items.append(item)
            self._held += size
            self._changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        """No more items come: all were put, or `error` is why not."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._wait_for(lambda: self._items or self._ended)
                if not self._items:
                    break
                item = self._items.popleft()
                self._held -= self._size_of(item)
                self._changed.notify_all()
            yield item
            del item  # or it would stay in memory while the next one is waited for
        if self._error:
            raise self._error

    def _wait_for(self, condition: Callable[[], object]) -> None:
        while not self._changed.wait_for(condition, _POLL_SECONDS):
            if self._stop.is_set():
                raise _StoppedError


async def overlapped(
    source: Callable[[], AbstractContextManager[Iterable[T]]],
    transform: Callable[[Iterable[T]], Iterator[U]],
    *,
    input_size: Callable[[T], int],
    buffered_input_size: int,
    buffered_outputs: int,
) -> AsyncGenerator[U, None]:
    """What `transform` makes of what `source` yields, each in a thread of its own, ahead of whoever takes from it.

    `source` is ahead by items of `buffered_input_size` in all, or one that is larger; `transform` by a number of
    items. Closing the iterator stops both threads before it returns.
    """
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    inputs = _Handover(buffered_input_size, input_size, stop)
    outputs: asyncio.Queue[U | BaseException | None] = asyncio.Queue(buffered_outputs)

    def read() -> None:
        try:
            with source() as items:
                for item in items:
                    inputs.put(item)
            inputs.end()
        except _StoppedError:
            return
        except BaseException as error:
            inputs.end(error)

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
