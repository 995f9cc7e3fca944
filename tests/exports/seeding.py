"""Fills the trace store directly, so that tests decide every value and need no ingestion."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from storage.database import Database
from storage.ids import new_id
from storage.projects import ensure_project

DAY = datetime(2024, 2, 28, tzinfo=UTC)
KEPT = "kept"  # a tier of which no retention knows: these days are long past, the next leap day is far

_INSERT = """
INSERT INTO trace_runs (tenant_id, session_id, id, trace_id, parent_run_id, start_time, end_time, first_token_time,
    is_root, name, run_type, status, trace_tier, dotted_order, parent_run_ids, tags, error, inputs, outputs, extra,
    events, feedback_stats, total_tokens, prompt_tokens, completion_tokens, total_cost, prompt_cost, completion_cost)
SELECT %(tenant)s, %(project)s, id, id, NULL, started, started + interval '1.5 seconds',
    CASE WHEN n %% 3 = 0 THEN started + interval '0.25 seconds' END,
    true, 'chain ' || n %% 7, CASE WHEN n %% 2 = 0 THEN 'chain' ELSE 'llm' END,
    CASE WHEN n %% 11 = 0 THEN 'error' ELSE 'success' END, %(tier)s,
    to_char(started AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISSUS"Z"') || id::text, '{}',
    CASE WHEN n %% 2 = 0 THEN ARRAY['even', 'ünï "q"'] END, CASE WHEN n %% 11 = 0 THEN 'boom ' || n END,
    '{"question": "' || n || ' ' || repeat(md5(n::text), %(width)s / 32) || '"}',
    CASE WHEN n %% 11 <> 0 THEN '{"answer": ' || n || '}' END, '{"metadata": {"n": ' || n || '}}', '[]',
    CASE WHEN n %% 5 = 0 THEN '{"helpful": {"n": 1, "avg": 1.0}}' END,
    n, n / 2, n - n / 2, n * 0.001, n * 0.0004, n * 0.0006
FROM (SELECT n, md5(%(salt)s || n)::uuid AS id, %(start)s::timestamptz + n * %(step)s::interval AS started
      FROM generate_series(0, %(count)s - 1) n) given
"""


async def make_project(database: Database, tenant_id: UUID, name: str = "exported") -> UUID:
    async with database.transaction() as connection:
        return await ensure_project(connection, tenant_id, name)


async def add_runs(
    database: Database,
    tenant_id: UUID,
    project_id: UUID,
    count: int,
    *,
    start: datetime = DAY,
    step: timedelta = timedelta(milliseconds=10),
    width: int = 64,
) -> None:
    """`count` root runs from `start` on, `step` apart; `width` is about the length of their inputs."""
    async with database.transaction() as connection:
        await connection.execute(
            _INSERT,
            {
                "tenant": tenant_id,
                "project": project_id,
                "count": count,
                "start": start,
                "step": step,
                "width": width,
                "salt": str(new_id()),
                "tier": KEPT,
            },
        )


async def stored_ids(database: Database, project_id: UUID, start: datetime, end: datetime) -> list[str]:
    """Ids in [start, end), in the order in which exports write them."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT id::text FROM trace_runs WHERE session_id = %s AND start_time >= %s AND start_time < %s"
            " ORDER BY start_time, id",
            (project_id, start, end),
        )
        return [row["id"] for row in await cursor.fetchall()]
