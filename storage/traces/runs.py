"""Reading runs: lists with filters and cursors, and one run by id (trace contract §5.5)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.database import Connection
from storage.filters.compile import compile_filter
from storage.filters.fields import THREAD_KEYS
from storage.project_lists import live_projects
from storage.traces.columns import LARGE, SMALL
from storage.traces.keys import find_keys

# The conversation of a run: the first of the keys under which clients keep its id.
THREAD_ID = f"coalesce({', '.join(f'r.metadata_pairs -> {key!r} ->> 0' for key in THREAD_KEYS)})"
# Stored size of the documents on one page, after which it ends; what they are decompressed may be some times more.
PAGE_BYTES = 16 * 1024 * 1024


@dataclass
class RunQuery:
    """What runs to read. Every condition that is set must hold; `session_ids` None means all of the workspace.

    `in_thread`: only runs that belong to any thread. Bounds of the start: from `start_time` on, until `end_time`
    included, or until just before `before`.
    """

    session_ids: list[UUID] | None = None
    run_ids: list[UUID] | None = None
    trace_id: UUID | None = None
    parent_run_id: UUID | None = None
    reference_example_ids: list[UUID] | None = None
    thread_id: str | None = None
    in_thread: bool = False
    run_type: str | None = None
    is_root: bool | None = None
    has_error: bool | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    before: datetime | None = None
    conditions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    after: tuple[datetime, UUID] | None = None
    backwards: bool = False
    descending: bool = True
    limit: int = 100
    documents: Sequence[str] = LARGE


@dataclass(frozen=True)
class RunPage:
    """Rows in order, and whether there may be more after them."""

    rows: list[DictRow]
    more: bool


async def query_runs(connection: Connection, tenant_id: UUID, query: RunQuery) -> RunPage:
    """Rows of `SMALL` columns and the asked documents, in order of (start_time, id).

    At most `limit`, counted from `after`, the last row of the previous page, and fewer where documents are large.
    With `backwards` the page ends before `after`, the first row of the next page.
    """
    where, parameters = await conditions(connection, tenant_id, query)
    descending = query.descending is not query.backwards
    direction = "DESC" if descending else "ASC"
    order = f"ORDER BY r.start_time {direction}, r.id {direction}"
    if query.after:
        comparison = "<" if descending else ">"
        where += f" AND (r.start_time, r.id) {comparison} (%(after_time)s, %(after_id)s)"
        parameters |= {"after_time": query.after[0], "after_id": query.after[1]}
    documents = [name for name in LARGE if name in query.documents]
    size = " + ".join(f"coalesce(pg_column_size(r.{name}), 0)" for name in documents) or "0"
    cursor = await connection.execute(
        f"SELECT * FROM (SELECT r.*, count(*) OVER () AS found, sum({size}) OVER ({order}) - ({size}) AS before_bytes"
        f" FROM (SELECT {select_list(documents)} FROM trace_runs r WHERE {where} {order} LIMIT %(limit)s) r) r"
        f" WHERE before_bytes < {PAGE_BYTES} {order}".encode(),
        {**parameters, "limit": query.limit},
        prepare=False,  # which plan is right depends on the values: common or rare
    )
    rows = await cursor.fetchall()
    more = bool(rows) and (rows[0]["found"] == query.limit or len(rows) < rows[0]["found"])
    return RunPage(rows[::-1] if query.backwards else rows, more)


async def get_run(connection: Connection, tenant_id: UUID, run_id: UUID) -> DictRow | None:
    """One run with everything; None if the workspace has no such run."""
    page = await query_runs(connection, tenant_id, RunQuery(run_ids=[run_id], limit=1))
    return page.rows[0] if page.rows else None


def select_list(documents: Sequence[str]) -> str:
    columns = (f"r.{name}" for name in (*SMALL, *(name for name in LARGE if name in documents)))
    return f"{', '.join(columns)}, {THREAD_ID} AS thread_id"


async def conditions(connection: Connection, tenant_id: UUID, query: RunQuery) -> tuple[str, dict[str, Any]]:
    """The WHERE clause over `trace_runs r` and its parameters: tenant, live projects, and all that is asked."""
    parameters: dict[str, Any] = {"tenant_id": tenant_id}
    where = ["r.tenant_id = %(tenant_id)s"]

    def add(condition: str, name: str, value: Any) -> None:
        where.append(condition)
        parameters[name] = value

    if query.run_ids is not None:
        keys = await find_keys(connection, tenant_id, query.run_ids)
        add("r.id = ANY(%(run_ids)s)", "run_ids", [key.run_id for key in keys])
        add("r.session_id = ANY(%(key_sessions)s)", "key_sessions", [key.session_id for key in keys])
        add("r.start_time = ANY(%(key_times)s)", "key_times", [key.start_time for key in keys])
    if query.trace_id is not None:
        add("r.trace_id = %(trace_id)s", "trace_id", query.trace_id)
    sessions = await live_projects(connection, tenant_id, query.session_ids)
    if len(sessions) == 1:
        add("r.session_id = %(session_id)s", "session_id", sessions[0])  # lets the index give the order
    else:
        add("r.session_id = ANY(%(session_ids)s)", "session_ids", sessions)
    if query.parent_run_id is not None:
        add("r.parent_run_id = %(parent)s", "parent", query.parent_run_id)
        add(
            "r.trace_id = (SELECT p.trace_id FROM trace_run_keys k JOIN trace_runs p ON p.session_id = k.session_id"
            " AND p.start_time = k.start_time AND p.id = k.id WHERE k.tenant_id = %(tenant_id)s AND k.id = %(parent)s)",
            "parent",
            query.parent_run_id,
        )
    if query.reference_example_ids is not None:
        add("r.reference_example_id = ANY(%(examples)s)", "examples", query.reference_example_ids)
    if query.thread_id is not None:
        named = json.dumps(query.thread_id, ensure_ascii=False)
        thread = compile_filter(f"eq(thread_id, {named})", alias="r", prefix="thread_")
        where.append(thread.sql)
        parameters |= thread.params
    if query.in_thread:
        where.append(f"{THREAD_ID} IS NOT NULL")
    if query.run_type is not None:
        add("r.run_type = %(run_type)s", "run_type", query.run_type)
    if query.is_root is not None:
        where.append("r.is_root" if query.is_root else "NOT r.is_root")
    if query.has_error is not None:
        where.append("r.error IS NOT NULL" if query.has_error else "r.error IS NULL")
    if query.start_time is not None:
        add("r.start_time >= %(from_time)s", "from_time", query.start_time)
    if query.end_time is not None:
        add("r.start_time <= %(to_time)s", "to_time", query.end_time)
    if query.before is not None:
        add("r.start_time < %(before_time)s", "before_time", query.before)
    for condition, values in query.conditions:
        where.append(condition)
        parameters |= values
    return " AND ".join(where), parameters


async def children_of(
    connection: Connection, tenant_id: UUID, trace_ids: Sequence[UUID]
) -> dict[UUID, list[UUID]]:
    """Ids of the direct children of every run of the traces, in order of start."""
    cursor = await connection.execute(
        "SELECT parent_run_id, id FROM trace_runs WHERE tenant_id = %s AND trace_id = ANY(%s)"
        " AND parent_run_id IS NOT NULL ORDER BY start_time, id",
        (tenant_id, list(trace_ids)),
    )
    children: dict[UUID, list[UUID]] = {}
    for row in await cursor.fetchall():
        children.setdefault(row["parent_run_id"], []).append(row["id"])
    return children


async def first_tokens_of(
    connection: Connection, tenant_id: UUID, trace_ids: Sequence[UUID]
) -> dict[UUID, datetime]:
    """When any run of a trace gave its first token; traces without one are left out."""
    cursor = await connection.execute(
        "SELECT trace_id, min(first_token_time) AS first FROM trace_runs WHERE tenant_id = %s AND trace_id = ANY(%s)"
        " AND first_token_time IS NOT NULL GROUP BY trace_id",
        (tenant_id, list(trace_ids)),
    )
    return {row["trace_id"]: row["first"] for row in await cursor.fetchall()}
