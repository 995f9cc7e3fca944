"""Threads: the root runs that carry the same conversation's id, summed up (trace contract §5.5)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.database import Connection
from storage.traces.runs import THREAD_ID, RunQuery, conditions

_LATENCY = "extract(epoch FROM r.end_time - r.start_time)"


@dataclass
class ThreadQuery:
    """Threads of one project with turns, which are root runs, in [start_time, before).

    At least one turn must meet all of `conditions`. `after` is the last activity and the id of the page's last thread.
    """

    session_id: UUID
    start_time: datetime
    before: datetime
    conditions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    after: tuple[datetime, str] | None = None
    limit: int = 20
    offset: int = 0


async def list_threads(connection: Connection, tenant_id: UUID, query: ThreadQuery) -> list[DictRow]:
    """Latest activity first; with the ids of the first and the last turn, and of the last that failed."""
    turns = RunQuery(
        session_ids=[query.session_id], is_root=True, start_time=query.start_time, before=query.before
    )
    where, parameters = await conditions(connection, tenant_id, turns)
    having = "true"
    for condition, values in query.conditions:
        having += f" AND bool_or({condition})"
        parameters |= values
    if query.after:
        having += " AND (max(r.start_time), t.thread_id) < (%(after_time)s, %(after_thread)s)"
        parameters |= {"after_time": query.after[0], "after_thread": query.after[1]}
    cursor = await connection.execute(
        f"""
        SELECT t.thread_id, count(*) AS count, min(r.start_time) AS min_start_time, max(r.start_time) AS max_start_time,
            percentile_cont(0.5) WITHIN GROUP (ORDER BY {_LATENCY}) AS latency_p50,
            percentile_cont(0.99) WITHIN GROUP (ORDER BY {_LATENCY}) AS latency_p99,
            sum(r.total_tokens)::bigint AS total_tokens, sum(r.total_cost)::float AS total_cost,
            count(*) FILTER (WHERE r.status = 'error') AS num_errored_turns,
            (array_agg(r.id ORDER BY r.start_time, r.id))[1] AS first_trace_id,
            (array_agg(r.id ORDER BY r.start_time DESC, r.id DESC))[1] AS last_trace_id,
            (array_agg(r.id ORDER BY r.start_time DESC, r.id DESC) FILTER (WHERE r.error IS NOT NULL))[1] AS failed_id
        FROM trace_runs r, LATERAL (SELECT {THREAD_ID}) t (thread_id)
        WHERE {where} AND t.thread_id IS NOT NULL GROUP BY t.thread_id HAVING {having}
        ORDER BY max(r.start_time) DESC, t.thread_id DESC LIMIT %(limit)s OFFSET %(offset)s
        """.encode(),
        {**parameters, "limit": query.limit, "offset": query.offset},
        prepare=False,
    )
    return await cursor.fetchall()


async def count_threads(connection: Connection, tenant_id: UUID, query: RunQuery) -> int:
    """How many threads the selected runs belong to."""
    where, parameters = await conditions(connection, tenant_id, query)
    cursor = await connection.execute(
        f"SELECT count(DISTINCT {THREAD_ID}) AS n FROM trace_runs r WHERE {where}".encode(),
        parameters,
        prepare=False,
    )
    row = await cursor.fetchone()
    return int(row["n"]) if row else 0


async def bounds_of(connection: Connection, tenant_id: UUID, query: RunQuery) -> DictRow:
    """`first_start_time`, `last_start_time` and `last_end_time` of the selected runs."""
    where, parameters = await conditions(connection, tenant_id, query)
    cursor = await connection.execute(
        "SELECT min(r.start_time) AS first_start_time, max(r.start_time) AS last_start_time,"
        f" max(r.end_time) AS last_end_time FROM trace_runs r WHERE {where}".encode(),
        parameters,
        prepare=False,
    )
    row = await cursor.fetchone()
    assert row is not None
    return row


async def turn_numbers(connection: Connection, tenant_id: UUID, query: RunQuery) -> dict[UUID, int]:
    """The place, from 1, of every turn of the thread that the query's conditions name."""
    where, parameters = await conditions(connection, tenant_id, query)
    cursor = await connection.execute(
        "SELECT r.id, row_number() OVER (ORDER BY r.start_time, r.id) AS place FROM trace_runs r"
        f" WHERE {where}".encode(),
        parameters,
        prepare=False,
    )
    return {row["id"]: row["place"] for row in await cursor.fetchall()}
