"""Each reader sees every event of its channels once, in order, from its cursor on: whoever writes, whoever sweeps."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slipway_runtime.events import EventWriter
from slipway_runtime.pools import open_pool
from slipway_runtime.records import RunRecord

from api.agent_server.streams.protocol_events import Event, Selection
from api.agent_server.streams.protocol_stream import ResumeGapError, selected_events, starting_point
from api.notifications import Notifications
from storage.database import Database
from storage.scope import DeploymentScope
from storage.thread_events import ThreadEvents, end_run_events, sweep_events
from tests.streams.conftest import Served

# What one writer does: a custom event, a row of several events, a pause.
ACTIONS = st.lists(st.sampled_from(["custom", "message", "pause"]), min_size=1, max_size=25)
# What one reader does: it reads so many events, loses its connection and comes back.
READERS = st.lists(st.lists(st.integers(1, 12), min_size=0, max_size=4), min_size=1, max_size=3)
# What retention does meanwhile: so much of what is there grows old, and so many rows of that are swept.
SWEEPS = st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(1, 8)), max_size=6)
_OLD_SECONDS = 8 * 365 * 86_400.0


class _Services:
    def __init__(self, database: Database, notifications: Notifications) -> None:
        self.database = database
        self.notifications = notifications


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writers=st.lists(ACTIONS, min_size=1, max_size=3),
    readers=READERS,
    sweeps=SWEEPS,
    seed=st.integers(0, 2**32),
)
async def test_any_interleaving(
    streaming: Served,
    writers: list[list[str]],
    readers: list[list[int]],
    sweeps: list[tuple[float, int]],
    seed: int,
) -> None:
    chance = random.Random(seed)
    async with Database(streaming.database.url, 8) as database, Notifications(database.url) as notifications:
        services: Any = _Services(database, notifications)
        scope = DeploymentScope(streaming.tenant_id, streaming.deployment_id)
        thread_id, [*runs, closing] = await _rows(database, streaming, len(writers) + 1)
        async with open_pool(streaming.worker_database_url, 4) as pool:
            # Two processes write to the thread, each with its own writer.
            event_writers = [EventWriter(pool), EventWriter(pool)]
            serving = [asyncio.create_task(writer.run()) for writer in event_writers]
            reading = [
                asyncio.create_task(_read(services, scope, thread_id, drops, chance)) for drops in readers
            ]
            await asyncio.gather(
                _sweep(database, thread_id, sweeps, chance),
                *(
                    _write(database, event_writers[place % 2], thread_id, run_id, actions, chance)
                    for place, (run_id, actions) in enumerate(zip(runs, writers, strict=True))
                ),
            )
            await _close(database, thread_id, closing)
            async with asyncio.timeout(30):
                results = await asyncio.gather(*reading)
            for task in serving:
                task.cancel()
    kept = await _written(streaming, thread_id)
    for seen in results:
        seen.check(kept)
        if not sweeps:
            assert seen.numbers == kept


async def test_a_reader_that_comes_with_the_first_event_sees_it(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Database(streaming.database.url, 4) as database:
        services: Any = streaming
        scope = DeploymentScope(streaming.tenant_id, streaming.deployment_id)
        thread_id, [run_id] = await _rows(database, streaming, 1)
        asked: list[str] = []

        def followed_by_an_event(name: str) -> Any:
            original = getattr(ThreadEvents, name)

            async def ask(events: ThreadEvents, thread: UUID) -> Any:
                answer = await original(events, thread)
                asked.append(name)
                if len(asked) == 1:
                    await _close(database, thread_id, run_id)
                return answer

            return ask

        for name in ("oldest", "newest_seq"):
            monkeypatch.setattr(ThreadEvents, name, followed_by_an_event(name))
        assert await starting_point(services, scope, thread_id, None) == 0
        assert len(asked) == 2


async def test_a_sweep_is_noticed_and_what_is_left_is_whole(streaming: Served) -> None:
    chance = random.Random(7)
    async with Database(streaming.database.url, 8) as database, Notifications(database.url) as notifications:
        services: Any = _Services(database, notifications)
        scope = DeploymentScope(streaming.tenant_id, streaming.deployment_id)
        thread_id, [run_id, closing] = await _rows(database, streaming, 2)
        async with open_pool(streaming.worker_database_url, 2) as pool:
            writer = EventWriter(pool)
            serving = asyncio.create_task(writer.run())
            await _write(database, writer, thread_id, run_id, ["custom", "message"] * 20, chance)
            await _close(database, thread_id, closing)
            serving.cancel()
        everything = await _written(streaming, thread_id)
        async with database.connection() as connection:
            await connection.execute(
                "UPDATE thread_events SET created_at = now() - interval '9 years' - seq * interval '-1 s'"
                " WHERE thread_id = %s AND seq <= %s",
                (thread_id, everything[-1] // 2),
            )
            while await sweep_events(connection, _OLD_SECONDS, rows=7):
                kept = await _written(streaming, thread_id)
                assert kept == everything[len(everything) - len(kept) :]
        kept = await _written(streaming, thread_id)
        assert 0 < len(kept) < len(everything)
        assert (await _read(services, scope, thread_id, [3], chance)).numbers == kept
        with pytest.raises(ResumeGapError) as gap:
            await starting_point(services, scope, thread_id, everything[0])
        assert (gap.value.since, gap.value.oldest) == (everything[0], kept[0])
        assert await starting_point(services, scope, thread_id, kept[0] - 1) == kept[0] - 1


async def _rows(database: Database, served: Served, runs: int) -> tuple[UUID, list[UUID]]:
    thread_id, run_ids = uuid4(), [uuid4() for _ in range(runs)]
    async with database.transaction() as connection:
        await connection.execute(
            "INSERT INTO threads (thread_id, deployment_id, tenant_id) VALUES (%s, %s, %s)",
            (thread_id, served.deployment_id, served.tenant_id),
        )
        for run_id in run_ids:
            await connection.execute(
                "INSERT INTO runs (run_id, thread_id, deployment_id, tenant_id, assistant_id, graph_id, kwargs,"
                " status, attempt) VALUES (%s, %s, %s, %s, %s, 'g', '{}', 'running', 1)",
                (run_id, thread_id, served.deployment_id, served.tenant_id, uuid4()),
            )
    return thread_id, run_ids


async def _write(
    database: Database,
    writer: EventWriter,
    thread_id: UUID,
    run_id: UUID,
    actions: list[str],
    chance: random.Random,
) -> None:
    record: RunRecord = writer.open(str(run_id), str(thread_id), 1)
    for action in actions:
        if action == "pause":
            await asyncio.sleep(chance.random() * 0.02)
        elif action == "custom":
            record.append("custom", (), b'{"a":1}')
        else:
            size = chance.randint(1, 4)
            events = ",".join(f'{{"event":"e{place}"}}' for place in range(size))
            record.append("messages", (), f'{{"events":[{events}]}}'.encode(), size)
    await writer.flush(record)
    async with database.transaction() as connection:
        await connection.execute("SELECT FROM threads WHERE thread_id = %s FOR UPDATE", (thread_id,))
        await end_run_events(connection, thread_id, run_id, "interrupted", None)
        await connection.execute("SELECT pg_notify('slipway_threads', %s)", (str(thread_id),))


async def _close(database: Database, thread_id: UUID, run_id: UUID) -> None:
    """The last event of all: a run that fails, by which readers know that they have seen everything."""
    async with database.transaction() as connection:
        await connection.execute("SELECT FROM threads WHERE thread_id = %s FOR UPDATE", (thread_id,))
        error = {"error": "Closing", "message": "the last event"}
        await end_run_events(connection, thread_id, run_id, "error", error)
        await connection.execute("SELECT pg_notify('slipway_threads', %s)", (str(thread_id),))


async def _sweep(
    database: Database, thread_id: UUID, sweeps: list[tuple[float, int]], chance: random.Random
) -> None:
    """Some of what is there grows old, never the newest row; then a batch of it is deleted."""
    for part, rows in sweeps:
        await asyncio.sleep(chance.random() * 0.05)
        async with database.connection() as connection:
            await connection.execute(
                "UPDATE thread_events SET created_at = now() - interval '9 years' + seq * interval '1 s'"
                " WHERE thread_id = %(thread_id)s AND created_at > now() - interval '1 year' AND seq <="
                " %(part)s * (SELECT max(seq) - 1 FROM thread_events WHERE thread_id = %(thread_id)s)"
                " AND seq < (SELECT max(seq) FROM thread_events WHERE thread_id = %(thread_id)s)",
                {"thread_id": thread_id, "part": part},
            )
            await sweep_events(connection, _OLD_SECONDS, rows)


class _Seen:
    """What one reader saw: numbers in the order in which they came, and the gaps that it was told of."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        # Place in `numbers` of what came after the gap -> the oldest number that was kept then.
        self.gaps: dict[int, int] = {0: 1}

    def check(self, kept: list[int]) -> None:
        """Each number once, in order, without a gap that was not told; nothing of what is kept is missing."""
        for place, (one, other) in enumerate(itertools.pairwise(self.numbers), start=1):
            assert other == one + 1 or one < self.gaps.get(place, 0) <= other, (place, one, other, self.gaps)
        assert set(kept) <= set(self.numbers)


async def _read(
    services: Any, scope: DeploymentScope, thread_id: UUID, drops: list[int], chance: random.Random
) -> _Seen:
    """All that a reader is told until the closing event; `drops` cuts its connection now and then."""
    selection = Selection(frozenset({"custom", "messages", "lifecycle"}))
    seen = _Seen()
    pending = list(drops)
    since: int | None = None
    while True:
        try:
            after = await starting_point(services, scope, thread_id, since)
            left = pending.pop(0) if pending else None
            events = selected_events(services, scope, thread_id, selection, after)
            async with contextlib.aclosing(events):
                async for event in _flat(events):
                    seen.numbers.append(event.seq)
                    if event.method == "lifecycle" and orjson.loads(event.data)["event"] == "failed":
                        return seen
                    left = None if left is None else left - 1
                    if left == 0:
                        break
            since = seen.numbers[-1] if seen.numbers else None
        except ResumeGapError as gap:
            assert gap.since < gap.oldest - 1
            seen.gaps[len(seen.numbers)] = gap.oldest
            since = gap.oldest - 1
        await asyncio.sleep(chance.random() * 0.01)


async def _flat(pages: AsyncIterator[list[tuple[Event, bytes]]]) -> AsyncIterator[Event]:
    async for page in pages:
        for event, _ in page:
            yield event


async def _written(served: Served, thread_id: UUID) -> list[int]:
    """All numbers of the record."""
    rows = await served.rows(
        "SELECT seq, CASE WHEN event = 'messages' THEN json_array_length(data -> 'events') ELSE 1 END AS weight"
        " FROM thread_events WHERE thread_id = %s ORDER BY seq",
        thread_id,
    )
    return [seq for row in rows for seq in range(row["seq"] - row["weight"] + 1, row["seq"] + 1)]
