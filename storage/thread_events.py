"""Events of threads: what clients see happening, in order (docs/architecture/streams.md).

Revision workers write most of them. Here they are read, and written where no worker can: the end of a run that
was cancelled, given up or taken back.
"""

from typing import Any
from uuid import UUID

import orjson
from psycopg.rows import DictRow

from storage.database import Connection
from storage.scope import ScopedRepository

PAGE_ROWS = 500
# Of data as it is sent on, not as it is stored; a page holds at least one row.
PAGE_BYTES = 1024 * 1024

_PAGE = """
SELECT seq, run_id, event, namespace, data::text AS data, created_at FROM (
    SELECT seq, run_id, event, namespace, data, created_at, sum(size) OVER (ORDER BY seq) - size AS bytes_before
    FROM (SELECT e.*, coalesce(e.bytes, pg_column_size(e.data)) AS size
          FROM thread_events e JOIN threads USING (thread_id, deployment_id)
          WHERE {scope} AND thread_id = %(thread_id)s AND e.seq > %(after)s AND <run>
          ORDER BY e.seq LIMIT %(rows)s) newest) sized
WHERE bytes_before < %(bytes)s ORDER BY seq
"""
_OF_RUN = "e.run_id = %(run_id)s"

_APPEND = """
WITH thread AS (UPDATE threads SET event_seq = event_seq + %(count)s WHERE thread_id = %(thread_id)s
                RETURNING event_seq, deployment_id)
INSERT INTO thread_events (thread_id, seq, deployment_id, run_id, attempt, event, namespace, data, created_at)
SELECT %(thread_id)s, thread.event_seq - %(count)s + e.place, thread.deployment_id, %(run_id)s, 0, e.event,
       string_to_array(e.namespace, '|'), e.data::json, clock_timestamp()
FROM thread, unnest(%(events)s::text[], %(namespaces)s::text[], %(data)b::text[])
             WITH ORDINALITY AS e (event, namespace, data, place)
"""


class ThreadEvents(ScopedRepository):
    """Events of one deployment's threads. `data` is JSON text."""

    async def page(self, thread_id: UUID, after: int, run_id: UUID | None = None) -> list[DictRow]:
        """The rows that follow the sequence number `after`, of one run or of all, bounded in number and size.

        A row may stand for several numbers: `seq` is its last.
        """
        return await self.all(
            _PAGE.replace("<run>", _OF_RUN if run_id else "true"),
            {
                "thread_id": thread_id,
                "after": after,
                "run_id": run_id,
                "rows": PAGE_ROWS,
                "bytes": PAGE_BYTES,
            },
        )

    async def newest_seq(self, thread_id: UUID) -> int | None:
        """The last number given on the thread, 0 before the first; None if there is no such thread."""
        row = await self.one(
            "SELECT event_seq FROM threads WHERE {scope} AND thread_id = %(thread_id)s",
            {"thread_id": thread_id},
        )
        return row["event_seq"] if row else None

    async def oldest(self, thread_id: UUID) -> DictRow | None:
        """The first row that is still kept: seq, event, data."""
        return await self.one(
            "SELECT e.seq, e.event, e.data::text AS data FROM thread_events e"
            " JOIN threads USING (thread_id, deployment_id)"
            " WHERE {scope} AND thread_id = %(thread_id)s ORDER BY e.seq LIMIT 1",
            {"thread_id": thread_id},
        )

    async def lifecycle(self, thread_id: UUID, run_id: UUID) -> list[DictRow]:
        """Rows that say which graphs of a run began and ended, in order."""
        return await self.all(
            "SELECT e.seq, e.event, e.namespace, e.data::text AS data FROM thread_events e"
            " JOIN threads USING (thread_id, deployment_id) WHERE {scope} AND thread_id = %(thread_id)s"
            " AND e.run_id = %(run_id)s AND e.event IN ('running', 'lifecycle', 'ended') ORDER BY e.seq",
            {"thread_id": thread_id, "run_id": run_id},
        )


async def end_run_events(
    connection: Connection, thread_id: UUID, run_id: UUID, status: str, error: dict[str, str] | None
) -> None:
    """The last events of a run that its worker did not end: its nested graphs, the deepest first, then itself.

    The thread's row must be held by the transaction, as everyone does who writes events.
    """
    cursor = await connection.execute(
        "SELECT event, namespace, data::text AS data FROM thread_events WHERE thread_id = %s AND run_id = %s"
        " AND event IN ('lifecycle', 'ended') ORDER BY seq",
        (thread_id, run_id),
    )
    rows = await cursor.fetchall()
    if any(row["event"] == "ended" for row in rows):
        return
    event = "failed" if error else "interrupted"
    children = sorted(_still_running(rows), key=lambda namespace: -len(namespace))
    events = [("lifecycle", "|".join(namespace), {"event": event}) for namespace in children]
    end = ("ended", "", {"status": status, "event": event, "error": error})
    await _append(connection, thread_id, run_id, [*events, end])


async def withdraw_run_events(connection: Connection, thread_id: UUID, run_id: UUID) -> None:
    """Make the events of a run that is no more invisible, but for its beginning and its end.

    The rows stay: without gaps in the numbers, a reader can tell what was swept away from what never was.
    """
    await end_run_events(connection, thread_id, run_id, "interrupted", None)
    await connection.execute(
        "UPDATE thread_events SET event = 'withdrawn',"
        " data = CASE WHEN event = 'messages' THEN json_build_object('weight', json_array_length(data -> 'events'))"
        "        ELSE 'null'::json END"
        " WHERE thread_id = %s AND run_id = %s AND event NOT IN ('running', 'ended', 'withdrawn')",
        (thread_id, run_id),
    )


async def sweep_events(connection: Connection, keep_seconds: float, rows: int = 10_000) -> int:
    """Delete at most `rows` of the oldest events that are older than `keep_seconds`; how many there were.

    Oldest first, in one statement: what is left of a thread is always its end, so that a reader can tell that
    something before it is gone.
    """
    cursor = await connection.execute(
        "DELETE FROM thread_events e USING (SELECT thread_id, seq FROM thread_events"
        " WHERE created_at < clock_timestamp() - make_interval(secs => %s)"
        " ORDER BY created_at, thread_id, seq LIMIT %s) old"
        " WHERE e.thread_id = old.thread_id AND e.seq = old.seq",
        (keep_seconds, rows),
    )
    return cursor.rowcount


def first_seq(row: DictRow) -> int:
    """The first of the numbers that a row stands for."""
    last, weight = int(row["seq"]), 1
    if row["event"] == "messages":
        weight = len(orjson.loads(row["data"])["events"])
    elif row["event"] == "withdrawn":
        weight = int((orjson.loads(row["data"]) or {}).get("weight", 1))
    return last - max(1, weight) + 1


def _still_running(rows: list[DictRow]) -> list[tuple[str, ...]]:
    running: dict[tuple[str, ...], None] = {}
    for row in rows:
        namespace = tuple(row["namespace"])
        if orjson.loads(row["data"])["event"] == "started":
            running[namespace] = None
        else:
            running.pop(namespace, None)
    return list(running)


async def _append(
    connection: Connection, thread_id: UUID, run_id: UUID, events: list[tuple[str, str, dict[str, Any]]]
) -> None:
    await connection.execute(
        _APPEND,
        {
            "thread_id": thread_id,
            "run_id": run_id,
            "count": len(events),
            "events": [event for event, _, _ in events],
            "namespaces": [namespace for _, namespace, _ in events],
            "data": [orjson.dumps(data).decode() for _, _, data in events],
        },
    )
