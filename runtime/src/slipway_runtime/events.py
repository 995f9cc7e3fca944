"""Writes what runs record: batches of rows, one transaction each, behind the fence (docs/architecture/runs.md)."""

import asyncio
import logging
import threading
import time

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg_pool import PoolTimeout

from slipway_runtime.messages import NOTIFY_CHANNEL, ONLY_EVENTS
from slipway_runtime.pools import Pool
from slipway_runtime.records import Batch, Limits, RunRecord, Settlement
from slipway_runtime.saver import SUPERSEDED, SupersededError

log = logging.getLogger(__name__)

# Between the starts of two batches: waking a reader costs more than a token is worth.
_PAUSE_SECONDS = 0.005
# Producers wait while so much is not written yet.
_FULL_BYTES = 8 * 1024 * 1024
_NOTIFY_BYTES = 7900
_BACKOFF_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

Taken = dict[RunRecord, Batch]

# A thread's lock comes before a run's, as everywhere: whoever settles a run takes them in this order too.
_LOCK_THREADS = "SELECT FROM threads WHERE thread_id = ANY(%s) ORDER BY thread_id FOR NO KEY UPDATE"
_FENCE = "SELECT slipway_fence(%s, %s)"
_SETTLE_RUN = (
    "UPDATE runs SET status = %s, error = %s, ended_at = now(), updated_at = now()"
    " WHERE run_id = %s AND attempt = %s AND status = 'running'"
)
# JSON goes in binary arrays (%b): the text format escapes every quote of it, a second and more for each megabyte.
_INSERT_EVENTS = """
WITH thread AS (
    UPDATE threads SET event_seq = event_seq + %(total)s WHERE thread_id = %(thread_id)s RETURNING event_seq)
INSERT INTO thread_events (thread_id, seq, run_id, attempt, event, namespace, data, bytes, created_at)
SELECT %(thread_id)s, thread.event_seq - %(total)s + e.place, %(run_id)s, %(attempt)s, e.event,
       string_to_array(e.namespace, '|'), e.data::json, octet_length(e.data), clock_timestamp()
FROM thread, unnest(%(places)s::bigint[], %(events)s::text[], %(namespaces)s::text[], %(data)b::text[])
             AS e (place, event, namespace, data)
"""
_UPSERT_STATES = """
INSERT INTO thread_states (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, run_id, metadata, state)
SELECT %(thread_id)s, s.ns, s.id, s.parent, %(run_id)s, s.metadata::jsonb, s.state::json
FROM unnest(%(ns)s::text[], %(id)s::text[], %(parent)s::text[], %(metadata)b::text[], %(state)b::text[])
     AS s (ns, id, parent, metadata, state)
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
DO UPDATE SET state = excluded.state, metadata = excluded.metadata
"""
_SHOW_SNAPSHOT = (
    "UPDATE threads SET values = %s::jsonb, interrupts = %s::jsonb, state_updated_at = now(), updated_at = now()"
    " WHERE thread_id = %s"
)
_SETTLE_THREAD = """
UPDATE threads SET
    status = CASE WHEN EXISTS (SELECT FROM runs WHERE thread_id = %(thread_id)s AND status IN ('pending', 'running'))
             THEN 'busy' ELSE %(status)s END,
    error = %(error)s::jsonb,
    metadata = metadata || jsonb_build_object('graph_id', %(graph_id)s::text, 'assistant_id', %(assistant_id)s::text),
    updated_at = now(), state_updated_at = now()
WHERE thread_id = %(thread_id)s
"""


class EventWriter:
    """One per process. `open` a record per attempt, then `flush` or `settle` it; `run` writes until cancelled."""

    def __init__(self, pool: Pool, limits: Limits | None = None) -> None:
        self._pool = pool
        self._limits = limits or Limits()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._dirty: dict[RunRecord, None] = {}
        self._woken = False
        self._waiting_bytes = 0
        self._work = asyncio.Event()
        self._written = asyncio.Condition()
        self._writing: Taken = {}

    @property
    def is_full(self) -> bool:
        """Whether producers should wait: the database is slower than they are."""
        return self._waiting_bytes > _FULL_BYTES

    def open(
        self, run_id: str, thread_id: str, attempt: int, graph_id: str = "", assistant_id: str = ""
    ) -> RunRecord:
        return RunRecord(run_id, thread_id, attempt, self._wake, self._limits, graph_id, assistant_id)

    async def flush(self, record: RunRecord) -> None:
        """Wait until all that was recorded is stored.

        Raises:
            SupersededError: the attempt may not write any more.
        """
        async with self._written:
            await self._written.wait_for(
                lambda: record.failure is not None or not (record in self._dirty or record in self._writing)
            )
        if record.failure is not None:
            raise record.failure

    async def settle(self, record: RunRecord, settlement: Settlement) -> None:
        """Write what is left and the run's end, in one transaction.

        Raises:
            SupersededError: the attempt may not write any more.
        """
        record.settle(settlement)
        await self.flush(record)

    async def run(self) -> None:
        """Write batches for ever."""
        while True:
            await self._work.wait()
            started = time.monotonic()
            with self._lock:
                self._work.clear()
                self._woken = False
                self._writing = {record: record.take() for record in self._dirty if record.failure is None}
                self._dirty.clear()
                taken_bytes = self._waiting_bytes
            await self._write_all(self._writing)
            async with self._written:
                self._writing = {}
                with self._lock:
                    self._waiting_bytes -= taken_bytes
                self._written.notify_all()
            await asyncio.sleep(max(0.0, _PAUSE_SECONDS - (time.monotonic() - started)))

    def _wake(self, record: RunRecord, size: int) -> None:
        with self._lock:
            self._waiting_bytes += size
            self._dirty[record] = None
            if self._woken:
                return
            self._woken = True
        self._loop.call_soon_threadsafe(self._work.set)

    async def _write_all(self, taken: Taken) -> None:
        for failures in range(1_000_000):
            try:
                await self._write(taken, again=failures > 0)
                return
            except (psycopg.OperationalError, PoolTimeout) as error:
                delay = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
                log.warning("event_write_failed error=%s retry_seconds=%s", type(error).__name__, delay)
                await asyncio.sleep(delay)
            except (SupersededError, psycopg.Error) as error:
                await self._write_apart(taken, error)
                return

    async def _write_apart(self, taken: Taken, error: BaseException) -> None:
        """One run of the batch was refused: it fails alone."""
        if len(taken) > 1:
            for record, batch in taken.items():
                await self._write_all({record: batch})
            return
        for record in taken:
            refused = isinstance(error, SupersededError) or getattr(error, "sqlstate", None) == SUPERSEDED
            if not refused:
                log.error("events_refused run_id=%s error=%s", record.run_id, error)
            record.fail(SupersededError(str(error)) if refused else error)

    async def _write(self, taken: Taken, *, again: bool) -> None:
        async with self._pool.connection() as connection:
            if again:
                taken = {
                    record: batch
                    for record, batch in taken.items()
                    if not await _is_stored(connection, record, batch)
                }
            if taken:
                await _write_batch(connection, taken)
        for record, batch in taken.items():
            record.stored += len(batch.events)


async def _write_batch(connection: AsyncConnection[DictRow], taken: Taken) -> None:
    threads = sorted({record.thread_id for record in taken})
    async with connection.pipeline() as pipeline, connection.transaction():
        await connection.execute(_LOCK_THREADS, (threads,))
        settled = []
        for record, batch in taken.items():
            if batch.settlement is None:
                await connection.execute(_FENCE, (record.run_id, record.attempt))
            else:
                end = batch.settlement
                settled.append(
                    await connection.execute(
                        _SETTLE_RUN, (end.status, end.error, record.run_id, record.attempt)
                    )
                )
        if settled:
            await pipeline.sync()
            if any(cursor.rowcount != 1 for cursor in settled):
                raise SupersededError("the run was ended or taken over")
        for record, batch in taken.items():
            await _write_rows(connection, record, batch)
        ended = {record.thread_id for record, batch in taken.items() if batch.settlement}
        for payload in _payloads([thread if thread in ended else thread + ONLY_EVENTS for thread in threads]):
            await connection.execute("SELECT pg_notify(%s, %s)", (NOTIFY_CHANNEL, payload))


async def _write_rows(connection: AsyncConnection[DictRow], record: RunRecord, batch: Batch) -> None:
    ids = {"thread_id": record.thread_id, "run_id": record.run_id}
    if batch.events:
        places, total = [], 0
        for row in batch.events:
            total += row.weight
            places.append(total)
        columns = {
            "events": [row.event for row in batch.events],
            "namespaces": [row.namespace for row in batch.events],
            "data": [row.data for row in batch.events],
        }
        await connection.execute(
            _INSERT_EVENTS, {**ids, **columns, "places": places, "total": total, "attempt": record.attempt}
        )
    if batch.states:
        columns_of_states = zip(*batch.states.values(), strict=True)
        names = ("ns", "id", "parent", "metadata", "state")
        await connection.execute(
            _UPSERT_STATES, {**ids, **dict(zip(names, map(list, columns_of_states), strict=True))}
        )
    if batch.snapshot:
        await connection.execute(
            _SHOW_SNAPSHOT, (batch.snapshot.values, batch.snapshot.interrupts, record.thread_id)
        )
    if batch.settlement:
        await connection.execute(
            _SETTLE_THREAD,
            {
                **ids,
                "status": batch.settlement.thread_status,
                "error": batch.settlement.error,
                "graph_id": record.graph_id,
                "assistant_id": record.assistant_id,
            },
        )


async def _is_stored(connection: AsyncConnection[DictRow], record: RunRecord, batch: Batch) -> bool:
    """Whether a batch whose connection broke was committed all the same."""
    cursor = await connection.execute(
        "SELECT (SELECT count(*) FROM thread_events WHERE run_id = %s AND attempt = %s) AS events,"
        " (SELECT status FROM runs WHERE run_id = %s AND attempt = %s) AS status",
        (record.run_id, record.attempt, record.run_id, record.attempt),
    )
    row = await cursor.fetchone()
    if row is None:
        return False
    if batch.settlement is not None:
        return bool(
            row["status"] == batch.settlement.status and row["events"] >= record.stored + len(batch.events)
        )
    return bool(batch.events) and row["events"] >= record.stored + len(batch.events)


def _payloads(threads: list[str]) -> list[str]:
    """Thread ids, marked or not, space-separated, in payloads that NOTIFY accepts."""
    per_payload = _NOTIFY_BYTES // 38
    return [" ".join(threads[i : i + per_payload]) for i in range(0, len(threads), per_payload)]
