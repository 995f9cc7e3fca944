"""Sums of tokens and costs over stored subtrees: of runs that arrive after their descendants, or outlive some."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from storage.database import Connection
from storage.traces.keys import RunKey
from storage.traces.rows import Sums, load_rows, set_sums
from storage.traces.usage import add_usage


async def sums_below(
    connection: Connection, tenant_id: UUID, traces: dict[UUID, UUID | None]
) -> dict[UUID, dict[str, Any]]:
    """What the stored descendants of runs have used, by run. `traces`: each run's trace."""
    sums: dict[UUID, Sums] = {run_id: {} for run_id in traces}
    if not traces:
        return sums
    cursor = await connection.execute(
        "SELECT id, parent_run_ids, own_usage -> 'counted' AS counted FROM trace_runs"
        " WHERE tenant_id = %s AND trace_id = ANY(%s) AND own_usage -> 'counted' IS NOT NULL",
        (tenant_id, list({trace_id for trace_id in traces.values() if trace_id})),
    )
    for row in await cursor.fetchall():
        for ancestor in traces.keys() & set(row["parent_run_ids"]):
            add_usage(sums[ancestor], row["counted"])
    return sums


async def renew_sums(connection: Connection, tenant_id: UUID, keys: Iterable[RunKey]) -> None:
    """Sum up runs again from what is stored of their subtrees. Their keys must be locked."""
    places = {key.run_id: key for key in keys}
    rows = await load_rows(connection, tenant_id, places.values())
    sums = await sums_below(connection, tenant_id, {run_id: row["trace_id"] for run_id, row in rows.items()})
    for run_id, row in rows.items():
        add_usage(sums[run_id], (row["own_usage"] or {}).get("counted"))
    await set_sums(connection, tenant_id, [(places[run_id], sums[run_id]) for run_id in rows])
