"""One LISTEN connection per API process, which wakes whoever waits for a thread or a run.

A notification only says that something changed; what changed is read from the tables. Whoever waits therefore
reads first, waits, and reads again, and a lost connection costs a wake-up of everybody, never an event.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator

import psycopg
import structlog

log = structlog.get_logger()

# Revision workers and platform activities announce here. Payload: thread ids, separated by spaces; one that ends with
# the mark has new events, and nothing else of it has changed.
CHANNEL = "slipway_threads"
ONLY_EVENTS = "~"
_RECONNECT_SECONDS = 0.5


class Subscription:
    """Wake-ups for one key. `wait` returns at the next one, or at once if one came since the last `wait`."""

    def __init__(self, by_events: bool) -> None:
        self.by_events = by_events
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, timeout_seconds: float) -> bool:
        """True if woken, False after `timeout_seconds`."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Notifications:
    """`async with Notifications(url)`; then `with subscribe(thread_id) as subscription`."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._waiting: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Notifications":
        self._task = asyncio.create_task(self._listen_for_ever())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    @contextlib.contextmanager
    def subscribe(self, thread_id: str, *, by_events: bool = True) -> Iterator[Subscription]:
        """Wake-ups for a thread while the context lasts; without `by_events` not for each that a run records."""
        subscription = Subscription(by_events)
        self._waiting[thread_id].add(subscription)
        try:
            yield subscription
        finally:
            self._waiting[thread_id].discard(subscription)
            if not self._waiting[thread_id]:
                del self._waiting[thread_id]

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError) as error:
                log.warning("notifications_interrupted", error=str(error))
            self._wake_all()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._wake_all()
            async for notification in connection.notifies():
                for announced in notification.payload.split():
                    thread_id = announced.removesuffix(ONLY_EVENTS)
                    for subscription in self._waiting.get(thread_id, ()):
                        if subscription.by_events or thread_id == announced:
                            subscription.wake()

    def _wake_all(self) -> None:
        for subscriptions in self._waiting.values():
            for subscription in subscriptions:
                subscription.wake()
