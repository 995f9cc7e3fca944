"""Statistics over runs: counts, latencies, tokens, costs, feedback (trace contract §5.5, `/runs/stats`; §5.6)."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.database import Connection
from storage.traces.runs import RunQuery, conditions

_LATENCY = "extract(epoch FROM r.end_time - r.start_time)"
_FIRST_TOKEN = "extract(epoch FROM r.first_token_time - r.start_time)"
# Sums count root runs only when there are both: a root's tokens and costs hold those of its subtree.
_AGGREGATES = f"""
    count(*) AS run_count,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY {_LATENCY}) AS latency_p50,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY {_LATENCY}) AS latency_p99,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY {_FIRST_TOKEN}) AS first_token_p50,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY {_FIRST_TOKEN}) AS first_token_p99,
    coalesce(sum(r.total_tokens) FILTER (WHERE r.is_root OR r.run_type = 'llm' AND NOT %(has_roots)s), 0)::bigint
        AS total_tokens,
    coalesce(sum(r.prompt_tokens) FILTER (WHERE r.is_root OR r.run_type = 'llm' AND NOT %(has_roots)s), 0)::bigint
        AS prompt_tokens,
    coalesce(sum(r.completion_tokens) FILTER (WHERE r.is_root OR r.run_type = 'llm' AND NOT %(has_roots)s), 0)::bigint
        AS completion_tokens,
    sum(r.total_cost) FILTER (WHERE r.is_root OR r.run_type = 'llm' AND NOT %(has_roots)s) AS total_cost,
    sum(r.prompt_cost) FILTER (WHERE r.is_root OR r.run_type = 'llm' AND NOT %(has_roots)s) AS prompt_cost,
    sum(r.completion_cost) FILTER (WHERE r.is_root OR r.run_type = 'llm' AND NOT %(has_roots)s) AS completion_cost,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY r.total_tokens) AS median_tokens,
    avg((r.status = 'error')::int)::float AS error_rate,
    avg((r.first_token_time IS NOT NULL)::int)::float AS streaming_rate,
    max(r.start_time) AS last_run_start_time
"""


async def run_stats(connection: Connection, tenant_id: UUID, query: RunQuery) -> DictRow:
    """One row of statistics over every run that the query selects; times in seconds."""
    where, parameters = await conditions(connection, tenant_id, query)
    cursor = await connection.execute(
        f"SELECT {_AGGREGATES} FROM trace_runs r WHERE {where}".encode(),
        {**parameters, "has_roots": query.is_root is not False},
        prepare=False,
    )
    row = await cursor.fetchone()
    assert row is not None
    return row


async def feedback_records(connection: Connection, tenant_id: UUID, query: RunQuery) -> list[dict[str, Any]]:
    """Feedback of every run that the query selects, at most the newest 100,000."""
    where, parameters = await conditions(connection, tenant_id, query)
    cursor = await connection.execute(
        "SELECT f.key, f.score, f.value, f.comment, f.is_error FROM trace_runs r"
        " JOIN feedback f ON f.tenant_id = r.tenant_id AND f.run_id = r.id"
        f" WHERE {where} AND r.feedback_stats IS NOT NULL ORDER BY f.created_at DESC LIMIT 100000".encode(),
        parameters,
    )
    return await cursor.fetchall()
