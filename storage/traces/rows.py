"""Rows of `trace_runs`: how merged runs are written, and what a later change needs to know of them."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.database import Connection, dump_json
from storage.traces.changes import FIELDS
from storage.traces.keys import RunKey
from storage.traces.merge import MergedRun
from storage.traces.usage import COSTS, COUNTS

DOCUMENTS = ("inputs", "outputs", "extra", "events", "serialized")
_PLAIN = tuple(name for name in FIELDS if name not in DOCUMENTS)
_COLUMNS = (
    "tenant_id",
    "id",
    *FIELDS,
    "parent_run_ids",
    "metadata_pairs",
    "first_token_time",
    "own_usage",
    "attachments",
    "is_root",
    "status",
    "trace_tier",
    "field_ranks",
    *COUNTS,
    *COSTS,
)
_COPY = f"COPY trace_runs ({', '.join(_COLUMNS)}) FROM STDIN"

Sums = dict[str, Any]


async def copy_rows(
    connection: Connection, tenant_id: UUID, rows: Iterable[tuple[UUID, MergedRun, str, Sums]]
) -> None:
    """Insert merged runs: id, run, trace tier and sums of its subtree."""
    tenant = str(tenant_id)
    async with connection.cursor().copy(_COPY) as copy:
        for run_id, run, tier, sums in rows:
            values = run.values
            await copy.write_row(
                (
                    tenant,
                    run_id,
                    *(values.get(name) for name in FIELDS),
                    values.get("parent_run_ids") or [],
                    _json(values.get("metadata_pairs") or {}),
                    values.get("first_token_time"),
                    _json(usage_record(values)),
                    _json(run.attachments or None),
                    values.get("parent_run_id") is None,
                    status_of(values),
                    tier,
                    run.ranks,
                    *(max(sums.get(name, 0), 0) for name in COUNTS),
                    *(sums.get(name) for name in COSTS),
                )
            )


async def load_rows(connection: Connection, tenant_id: UUID, keys: Iterable[RunKey]) -> dict[UUID, DictRow]:
    """What changes and sums need of existing rows. Documents are only said to be there (True) or not (None)."""
    located = [key for key in keys if key.start_time is not None]
    if not located:
        return {}
    cursor = await connection.execute(
        _LOAD,
        (
            [key.run_id for key in located],
            [key.session_id for key in located],
            [key.start_time for key in located],
            tenant_id,
        ),
    )
    return {row["id"]: row for row in await cursor.fetchall()}


_LOAD = f"""
SELECT r.id, {", ".join(f"r.{name}" for name in _PLAIN)}, r.parent_run_ids, r.own_usage, r.field_ranks,
    r.attachments,
    {", ".join(f"CASE WHEN r.{name} IS NOT NULL THEN true END AS {name}" for name in DOCUMENTS)}
FROM unnest(%b::uuid[], %b::uuid[], %b::timestamptz[]) AS given (id, session_id, start_time)
JOIN trace_runs r ON r.session_id = given.session_id AND r.start_time = given.start_time AND r.id = given.id
WHERE r.tenant_id = %s
"""


def merged_run_of(row: DictRow) -> MergedRun:
    """A stored run, ready to take further changes."""
    values = {name: row[name] for name in (*FIELDS, "parent_run_ids")}
    record = row["own_usage"] or {}
    values["extra_usage"] = record.get("extra")
    values["outputs_usage"] = record.get("outputs")
    values["model"] = record.get("model")
    return MergedRun(values, row["field_ranks"])


async def update_rows(
    connection: Connection, tenant_id: UUID, updates: list[tuple[RunKey, MergedRun, Sums]]
) -> None:
    """Write what changed of existing runs; their sums grow by the given ones."""
    if updates:
        parameters = [_update_parameters(tenant_id, *update) for update in updates]
        await connection.cursor().executemany(_UPDATE.encode(), parameters)


async def add_sums(connection: Connection, tenant_id: UUID, additions: list[tuple[RunKey, Sums]]) -> None:
    """Add to the sums of runs that are otherwise unchanged."""
    if additions:
        await connection.cursor().executemany(
            f"UPDATE trace_runs SET updated_at = now(), {_ADD} WHERE {_WHERE}".encode(),
            [{**_place(tenant_id, key), **_sum_parameters(sums)} for key, sums in additions],
        )


async def set_sums(connection: Connection, tenant_id: UUID, sums: list[tuple[RunKey, Sums]]) -> None:
    """Replace the sums of runs that are otherwise unchanged."""
    if sums:
        await connection.cursor().executemany(
            f"UPDATE trace_runs SET updated_at = now(), {_SET} WHERE {_WHERE}".encode(),
            [{**_place(tenant_id, key), **_sum_parameters(new)} for key, new in sums],
        )


_SET = ", ".join(f"{name} = %({name})s" for name in (*COUNTS, *COSTS))
_ADD = ", ".join(
    [f"{name} = greatest({name} + %({name})s, 0)" for name in COUNTS]
    + [
        f"{name} = CASE WHEN %({name})s::numeric IS NULL THEN {name}"
        f" ELSE coalesce({name}, 0) + %({name})s::numeric END"
        for name in COSTS
    ]
)
_WHERE = (
    "tenant_id = %(tenant_id)s AND session_id = %(old_session_id)s AND start_time = %(old_start_time)s"
    " AND id = %(id)s"
)
_KEPT = (*FIELDS, "parent_run_ids", "metadata_pairs", "first_token_time", "own_usage")
_UPDATE = f"""
UPDATE trace_runs SET updated_at = now(), is_root = %(is_root)s, status = %(status)s, field_ranks = %(field_ranks)s,
    attachments = CASE WHEN %(attachments)s::jsonb IS NULL THEN attachments
                       ELSE coalesce(attachments, '{{}}') || %(attachments)s::jsonb END,
    {", ".join(f"{name} = coalesce(%({name})s, {name})" for name in _KEPT)}, {_ADD}
WHERE {_WHERE}
"""


def _update_parameters(tenant_id: UUID, key: RunKey, run: MergedRun, sums: Sums) -> dict[str, Any]:
    values = run.values
    changed = {name: values.get(name) if name in run.changed else None for name in _KEPT}
    return {
        **changed,
        "metadata_pairs": _json(changed["metadata_pairs"]),
        "own_usage": _json(usage_record(values)),
        "attachments": _json(run.attachments or None),
        "is_root": values.get("parent_run_id") is None,
        "status": status_of(values),
        "field_ranks": run.ranks,
        **_place(tenant_id, key),
        **_sum_parameters(sums),
    }


def _place(tenant_id: UUID, key: RunKey) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "id": key.run_id,
        "old_session_id": key.session_id,
        "old_start_time": key.start_time,
    }


def _sum_parameters(sums: Sums) -> dict[str, Any]:
    return {**{name: sums.get(name, 0) for name in COUNTS}, **{name: sums.get(name) for name in COSTS}}


def status_of(values: dict[str, Any]) -> str:
    """`error`, `success` or `pending`, from what is known of a run."""
    if values.get("error"):
        return "error"
    return "pending" if values.get("end_time") is None else "success"


def usage_record(values: dict[str, Any]) -> dict[str, Any] | None:
    """What the column `own_usage` keeps: usage by where it came from, the model, and what was counted."""
    record = {
        "extra": values.get("extra_usage"),
        "outputs": values.get("outputs_usage"),
        "model": values.get("model"),
        "counted": values.get("counted"),
    }
    present = {name: value for name, value in record.items() if value}
    return present or None


def _json(value: Any) -> str | None:
    return None if value is None else dump_json(value).decode()
