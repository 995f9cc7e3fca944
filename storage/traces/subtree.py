"""Sums over the descendants of runs that arrive after their descendants."""

from typing import Any
from uuid import UUID

from storage.database import Connection
from storage.traces.merge import MergedRun
from storage.traces.usage import add_usage


async def sums_below(
    connection: Connection, tenant_id: UUID, runs: dict[UUID, MergedRun], late: set[UUID]
) -> dict[UUID, dict[str, Any]]:
    """What the stored descendants of the runs `late` have used, by run."""
    sums: dict[UUID, dict[str, Any]] = {run_id: {} for run_id in late}
    traces = {run_id: runs[run_id].values.get("trace_id") for run_id in late}
    if not traces:
        return sums
    cursor = await connection.execute(
        "SELECT id, parent_run_ids, own_usage -> 'counted' AS counted FROM trace_runs"
        " WHERE tenant_id = %s AND trace_id = ANY(%s) AND own_usage -> 'counted' IS NOT NULL",
        (tenant_id, [trace_id for trace_id in traces.values() if trace_id]),
    )
    for row in await cursor.fetchall():
        for ancestor in late.intersection(row["parent_run_ids"]):
            add_usage(sums[ancestor], row["counted"])
    return sums
