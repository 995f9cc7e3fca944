"""Statistics over runs: counts, latencies, tokens, costs, feedback (trace contract §5.5, `/runs/stats`; §5.6)."""

from dataclasses import dataclass
from typing import Any, Literal
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


# Rows of one column, `value`: the groups that a run belongs to. The path into metadata is bound.
_GROUPS = {
    "name": "(SELECT r.name)",
    "run_type": "(SELECT r.run_type)",
    "status": "(SELECT r.status)",
    "tag": "(SELECT DISTINCT unnest(r.tags))",
    "metadata": "(SELECT jsonb_array_elements_text(r.metadata_pairs -> %(group_path)s))",
}
FACETS = ("name", "run_type", "status", "tag")


@dataclass(frozen=True)
class Grouping:
    """The `most` largest groups of runs by name, run_type, status, tag, or by the values of metadata at a path."""

    attribute: Literal["name", "run_type", "status", "tag", "metadata"]
    path: str = ""
    most: int = 5


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


async def grouped_stats(
    connection: Connection, tenant_id: UUID, query: RunQuery, grouping: Grouping
) -> dict[str, DictRow]:
    """The same for each group, largest first. A run with several tags counts in the group of each."""
    where, parameters = await conditions(connection, tenant_id, query)
    cursor = await connection.execute(
        f"SELECT g.value, {_AGGREGATES} FROM trace_runs r, LATERAL {_GROUPS[grouping.attribute]} g (value)"
        f" WHERE {where} GROUP BY g.value ORDER BY count(*) DESC, g.value LIMIT %(most)s".encode(),
        {
            **parameters,
            "has_roots": query.is_root is not False,
            "group_path": grouping.path,
            "most": grouping.most,
        },
        prepare=False,
    )
    return {row.pop("value"): row for row in await cursor.fetchall()}


async def run_facets(connection: Connection, tenant_id: UUID, query: RunQuery) -> list[DictRow]:
    """`key`, `value` and `n`: for each of `FACETS` the ten values that most runs have."""
    where, parameters = await conditions(connection, tenant_id, query)
    values = " UNION ALL ".join(
        f"SELECT '{key}' AS key, g.value FROM {_GROUPS[key]} g (value)" for key in FACETS
    )
    cursor = await connection.execute(
        f"SELECT key, value, n FROM (SELECT f.key, f.value, count(*) AS n,"
        " row_number() OVER (PARTITION BY f.key ORDER BY count(*) DESC, f.value) AS place"
        f" FROM trace_runs r, LATERAL ({values}) f WHERE {where} GROUP BY f.key, f.value) counted"
        " WHERE place <= 10 ORDER BY key, place".encode(),
        parameters,
        prepare=False,
    )
    return await cursor.fetchall()


async def feedback_records(
    connection: Connection, tenant_id: UUID, query: RunQuery, grouping: Grouping | None = None
) -> list[dict[str, Any]]:
    """Feedback of every run that the query selects, with the run's `group`; at most the newest 100,000."""
    where, parameters = await conditions(connection, tenant_id, query)
    groups = _GROUPS[grouping.attribute] if grouping else "(SELECT NULL::text)"
    cursor = await connection.execute(
        'SELECT f.key, f.score, f.value, f.comment, f.is_error, g.value AS "group" FROM trace_runs r'
        " JOIN feedback f ON f.tenant_id = r.tenant_id AND f.run_id = r.id,"
        f" LATERAL {groups} g (value)"
        f" WHERE {where} AND r.feedback_stats IS NOT NULL ORDER BY f.created_at DESC LIMIT 100000".encode(),
        {**parameters, "group_path": grouping.path if grouping else ""},
    )
    return await cursor.fetchall()
