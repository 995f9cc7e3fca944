"""Dotted orders of runs whose client sent none: derived from the parent's (trace contract §5.4, `POST /runs`)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from psycopg.rows import DictRow

from storage.database import Connection
from storage.traces.keys import find_keys
from storage.traces.merge import MergedRun, is_client_given
from storage.traces.rows import load_rows

MAX_DEPTH = 500


def segment_of(run_id: UUID, start_time: datetime) -> str:
    """A run's own segment of its dotted order."""
    return f"{start_time.astimezone(UTC):%Y%m%dT%H%M%S%f}Z{run_id}"


async def complete_orders(connection: Connection, tenant_id: UUID, runs: dict[UUID, MergedRun]) -> None:
    """Give every run a dotted order, a trace and its ancestors; one whose parent is unknown begins at itself."""
    unordered = {run_id: run for run_id, run in runs.items() if run.values.get("dotted_order") is None}
    if not unordered:
        return
    outside = {run.values.get("parent_run_id") for run in unordered.values()} - runs.keys() - {None}
    stored: dict[UUID, DictRow] = {}
    if outside:
        keys = await find_keys(connection, tenant_id, [run_id for run_id in outside if run_id])
        stored = await load_rows(connection, tenant_id, keys)
    for run_id in unordered:
        _complete(run_id, runs, stored, set())


def _complete(
    run_id: UUID, runs: dict[UUID, MergedRun], stored: dict[UUID, DictRow], under_way: set[UUID]
) -> None:
    run = runs[run_id]
    if run.values.get("dotted_order") is not None:
        return
    under_way.add(run_id)
    parent_id = run.values.get("parent_run_id")
    parent = stored.get(parent_id) if parent_id else None
    if parent_id in runs and parent_id not in under_way:
        _complete(parent_id, runs, stored, under_way)
        parent = runs[parent_id].values
    own = segment_of(run_id, run.values["start_time"])
    ancestors: list[UUID] = []
    if parent is not None and parent_id is not None:
        own = f"{parent['dotted_order']}.{own}"
        ancestors = [*(parent["parent_run_ids"] or ()), parent_id]
    elif parent_id is not None:
        ancestors = [parent_id]
    run.guess("dotted_order", own)
    run.guess("parent_run_ids", ancestors)
    if run.values.get("trace_id") is None:
        run.guess("trace_id", parent["trace_id"] if parent is not None else parent_id or run_id)


@dataclass(frozen=True, slots=True)
class TraceRun:
    """What paths are derived from. `is_given`: a client sent the dotted order, so that it stands."""

    session_id: UUID
    trace_id: UUID
    parent_run_id: UUID | None
    start_time: datetime
    dotted_order: str
    is_given: bool


async def unordered_traces(
    connection: Connection, tenant_id: UUID, trace_ids: list[UUID]
) -> dict[UUID, TraceRun]:
    """Runs of traces, at most 50,000."""
    cursor = await connection.execute(
        "SELECT id, session_id, trace_id, parent_run_id, start_time, dotted_order, field_ranks FROM trace_runs"
        " WHERE tenant_id = %s AND trace_id = ANY(%s) LIMIT 50000",
        (tenant_id, trace_ids),
    )
    return {
        row["id"]: TraceRun(
            row["session_id"],
            row["trace_id"],
            row["parent_run_id"],
            row["start_time"],
            row["dotted_order"],
            is_client_given(row["field_ranks"], "dotted_order"),
        )
        for row in await cursor.fetchall()
    }


def path_of(run_id: UUID, runs: dict[UUID, TraceRun]) -> tuple[str, list[UUID]]:
    """Dotted order and ancestors of a run, from the topmost known one down."""
    segments: list[str] = []
    ancestors: list[UUID] = []
    current: UUID | None = run_id
    seen: set[UUID] = set()
    while current is not None and current in runs and current not in seen and len(seen) < MAX_DEPTH:
        seen.add(current)
        segments.append(segment_of(current, runs[current].start_time))
        current = runs[current].parent_run_id
        if current is not None:
            ancestors.append(current)
    return ".".join(reversed(segments)), ancestors[::-1]
