"""Rows of the trace store made by PostgreSQL itself: a million of 2 KB in a minute, for plans and timings of queries.

Traces of five runs, one after the other. A customer has one in a thousand, an environment one in two, a thread one.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import md5
from uuid import UUID

from storage.database import Connection

CUSTOMERS = 1_000
RUNS_PER_TRACE = 5
_AT_ONCE = 20_000


@dataclass(frozen=True)
class Seeded:
    """Where the rows are: `traces` traces of one project, started evenly from `start` to `end`."""

    tenant_id: UUID
    session_id: UUID
    traces: int
    start: datetime
    step: timedelta

    @property
    def end(self) -> datetime:
        return self.start + self.traces * self.step

    @property
    def mark(self) -> str:
        """What this project's values begin with: indexes of values are those of all workspaces."""
        return str(self.session_id)[-8:]

    def customer(self, trace: int) -> str:
        return f"{self.mark}-customer-{trace * 7919 % CUSTOMERS}"

    def run_id(self, trace: int, place: int = 0) -> UUID:
        """The run at a place of a trace; place 0 is the root."""
        return UUID(md5(f"{self.session_id}/{trace}/{place}".encode()).hexdigest())

    def example_id(self, trace: int) -> UUID:
        """The example that every tenth trace was run on."""
        return UUID(md5(f"{self.session_id}/example {trace // 10 * 10}".encode()).hexdigest())


async def seed(connection: Connection, seeded: Seeded, *, characters: int = 600) -> None:
    """Insert the rows with documents of so many characters each, and give the planner its statistics."""
    for first in range(0, seeded.traces, _AT_ONCE):
        await connection.execute(
            _INSERT,
            {
                "tenant": seeded.tenant_id,
                "project": str(seeded.session_id),
                "first": first,
                "last": min(first + _AT_ONCE, seeded.traces) - 1,
                "start": seeded.start,
                "step": seeded.step,
                "mark": seeded.mark,
                "customers": CUSTOMERS,
                "runs": RUNS_PER_TRACE - 1,
                "words": characters // 7,
            },
        )
    await connection.execute(
        "INSERT INTO trace_run_keys (tenant_id, id, session_id, start_time)"
        " SELECT tenant_id, id, session_id, start_time FROM trace_runs WHERE session_id = %s ON CONFLICT DO NOTHING",
        (seeded.session_id,),
    )
    await connection.execute("ANALYZE trace_runs")
    await connection.execute("ANALYZE trace_run_keys")


_INSERT = """
WITH made AS MATERIALIZED (
    SELECT trace, place, md5(%(project)s || '/' || trace || '/' || place)::uuid AS id,
        md5(%(project)s || '/' || trace || '/0')::uuid AS root,
        %(start)s::timestamptz + trace * %(step)s::interval + place * interval '1 millisecond' AS began
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) trace, generate_series(0, %(runs)s) place
    ORDER BY trace, place
)
INSERT INTO trace_runs (tenant_id, session_id, id, trace_id, parent_run_id, parent_run_ids, reference_example_id,
    start_time, end_time, is_root, name, run_type, status, trace_tier, dotted_order, tags, error, metadata_pairs,
    total_tokens, inputs, outputs, extra, events)
SELECT %(tenant)s, %(project)s::uuid, id, root, CASE WHEN place > 0 THEN root END,
    CASE WHEN place > 0 THEN ARRAY[root] ELSE '{}' END,
    CASE WHEN place = 0 AND trace %% 10 = 0 THEN md5(%(project)s || '/example ' || trace)::uuid END,
    began, began + interval '15 milliseconds', place = 0, (ARRAY['agent', 'model', 'tool'])[1 + (place + 1) / 2],
    CASE WHEN place = 0 THEN 'chain' WHEN place %% 2 = 1 THEN 'llm' ELSE 'tool' END,
    CASE WHEN trace %% 50 = 7 THEN 'error' ELSE 'success' END, 'longlived',
    to_char(began AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISSUS"Z"') || id, ARRAY['bench'],
    CASE WHEN trace %% 50 = 7 THEN 'boom' END,
    jsonb_build_object('customer', ARRAY[%(mark)s || '-customer-' || (trace * 7919) %% %(customers)s],
        'environment', ARRAY[%(mark)s || CASE WHEN trace %% 2 = 0 THEN '-production' ELSE '-staging' END],
        'thread_id', ARRAY[root::text]),
    CASE WHEN place = 0 THEN 3 ELSE 1 END,
    '{"question": "' || %(mark)s || '-question-' || trace
        || '", "messages": [{"role": "user", "content": "' || filling || '"}]}',
    '{"answer": "' || %(mark)s || '-answer-' || trace || '-' || place
        || '", "messages": [{"role": "assistant", "content": "' || reverse(filling) || '"}]}',
    '{"metadata": {"customer": "customer-' || (trace * 7919) %% %(customers)s || '"}}', '[]'
FROM made, LATERAL (
    SELECT string_agg((ARRAY['alpha', 'river', 'stone', 'cloud', 'ember'])[1 + word / 200] || word, ' ') AS filling
    FROM generate_series(1, %(words)s) i,
        LATERAL (SELECT abs(hashint8(trace * 5000 + place * 1000 + i)) %% 1000 AS word) chosen
) text
"""
