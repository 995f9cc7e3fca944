"""Each reader sees every event of its channels once, in order, from its cursor on: whoever writes, whoever sweeps."""

import asyncio
import random
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slipway_runtime.events import EventWriter
from slipway_runtime.pools import open_pool
from slipway_runtime.records import RunRecord

from api.agent_server.streams.protocol_events import Selection
from api.agent_server.streams.protocol_stream import ResumeGapError, selected_events, starting_point
from api.notifications import Notifications
from storage.database import Database
from storage.scope import DeploymentScope
from storage.thread_events import end_run_events, sweep_events
from tests.streams.conftest import Served

# What one writer does: a custom event, a row of several events, a pause.
ACTIONS = st.lists(st.sampled_from(["custom", "message", "pause"]), min_size=1, max_size=25)
# What one reader does: it reads so many events, loses its connection and comes back.
READERS = st.lists(st.lists(st.integers(1, 12), min_size=0, max_size=4), min_size=1, max_size=3)


class _Services:
    def __init__(self, database: Database, notifications: Notifications) -> None:
        self.database = database
        self.notifications = notifications


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writers=st.lists(ACTIONS, min_size=1, max_size=3), readers=READERS, seed=st.integers(0, 2**32))
async def test_any_interleaving(
    streaming: Served, writers: list[list[str]], readers: list[list[int]], seed: int
) -> None:
    chance = random.Random(seed)
    async with Database(streaming.database.url, 8) as database, Notifications(database.url) as notifications:
        services: Any = _Services(database, notifications)
        scope = DeploymentScope(streaming.tenant_id, streaming.deployment_id)
        thread_id, runs = await _rows(database, streaming, len(writers))
        async with open_pool(streaming.worker_database_url, 4) as pool:
            # Two processes write to the thread, each with its own writer.
            event_writers = [EventWriter(pool), EventWriter(pool)]
            serving = [asyncio.create_task(writer.run()) for writer in event_writers]
            reading = [
                asyncio.create_task(_read(services, scope, thread_id, drops, len(writers), chance))
                for drops in readers
            ]
            await asyncio.gather(
                *(
                    _write(database, event_writers[place % 2], thread_id, run_id, actions, chance)
                    for place, (run_id, actions) in enumerate(zip(runs, writers, strict=True))
                )
            )
            async with asyncio.timeout(30):
                results = await asyncio.gather(*reading)
            for task in serving:
                task.cancel()
    written = await _written(streaming, thread_id)
    for seen in results:
        assert seen == written


async def test_a_sweep_is_noticed_and_what_is_left_is_whole(streaming: Served) -> None:
    chance = random.Random(7)
    async with Database(streaming.database.url, 8) as database, Notifications(database.url) as notifications:
        services: Any = _Services(database, notifications)
        scope = DeploymentScope(streaming.tenant_id, streaming.deployment_id)
        thread_id, [run_id] = await _rows(database, streaming, 1)
        async with open_pool(streaming.worker_database_url, 2) as pool:
            writer = EventWriter(pool)
            serving = asyncio.create_task(writer.run())
            await _write(database, writer, thread_id, run_id, ["custom", "message"] * 20, chance)
            serving.cancel()
        everything = await _written(streaming, thread_id)
        async with database.connection() as connection:
            await connection.execute(
                "UPDATE thread_events SET created_at = now() - interval '9 years' - seq * interval '-1 s'"
                " WHERE thread_id = %s AND seq <= %s",
                (thread_id, everything[-1] // 2),
            )
            while await sweep_events(connection, 8 * 365 * 86_400.0, rows=7):
                kept = await _written(streaming, thread_id)
                assert kept == everything[len(everything) - len(kept) :]
        kept = await _written(streaming, thread_id)
        assert 0 < len(kept) < len(everything)
        assert await _read(services, scope, thread_id, [3], 1, chance) == kept
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


async def _read(
    services: Any, scope: DeploymentScope, thread_id: UUID, drops: list[int], ends: int, chance: random.Random
) -> list[int]:
    """Numbers in the order in which they came, until every run has ended; `drops` cuts the connection now and then."""
    selection = Selection(frozenset({"custom", "messages", "lifecycle"}))
    seen: list[int] = []
    ended = 0
    pending = list(drops)
    while ended < ends:
        since = seen[-1] if seen else None
        after = await starting_point(services, scope, thread_id, since)
        left = pending.pop(0) if pending else None
        events = selected_events(services, scope, thread_id, selection, after)
        async for page in events:
            for event, _ in page:
                seen.append(event.seq)
                ended += event.method == "lifecycle"
                left = None if left is None else left - 1
                if left == 0 or ended == ends:
                    break
            if left == 0 or ended == ends:
                break
        await events.aclose()
        await asyncio.sleep(chance.random() * 0.01)
    return seen


async def _written(served: Served, thread_id: UUID) -> list[int]:
    """All numbers of the record."""
    rows = await served.rows(
        "SELECT seq, CASE WHEN event = 'messages' THEN json_array_length(data -> 'events') ELSE 1 END AS weight"
        " FROM thread_events WHERE thread_id = %s ORDER BY seq",
        thread_id,
    )
    return [seq for row in rows for seq in range(row["seq"] - row["weight"] + 1, row["seq"] + 1)]
