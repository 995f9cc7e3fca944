"""Changing examples: each change closes the current version of an example and opens the next (contract §5.8)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json, Jsonb

from storage.database import Connection
from storage.traces.changes import Attachment

DEFAULT_SPLIT = "base"


class ExampleConflictError(Exception):
    """An example's id belongs to another dataset, or to none."""


@dataclass
class ExampleChange:
    """A new example, or what is new about one: what is None stays as it was.

    `retain` and `rename` say which attachments stay and under what names; both None: all stay.
    """

    example_id: UUID
    inputs: Any = None
    outputs: Any = None
    metadata: dict[str, Any] | None = None
    splits: list[str] | None = None
    source_run_id: UUID | None = None
    created_at: datetime | None = None
    attachments: list[Attachment] = field(default_factory=list)
    copied_attachments: dict[str, Any] = field(default_factory=dict)
    retain: list[str] | None = None
    rename: dict[str, str] | None = None


async def lock_dataset(
    connection: Connection, tenant_id: UUID, dataset_id: UUID
) -> tuple[DictRow, datetime] | None:
    """A dataset that only this transaction may change, and the moment of its next version; None if there is none."""
    cursor = await connection.execute(
        "SELECT * FROM datasets WHERE tenant_id = %s AND id = %s FOR UPDATE", (tenant_id, dataset_id)
    )
    dataset = await cursor.fetchone()
    if dataset is None:
        return None
    cursor = await connection.execute(
        "SELECT greatest(clock_timestamp(), greatest(max(valid_from), max(valid_to)) + interval '1 microsecond') AS at"
        " FROM examples WHERE tenant_id = %s AND dataset_id = %s",
        (tenant_id, dataset_id),
    )
    row = await cursor.fetchone()
    assert row is not None
    return dataset, row["at"]


async def create_examples(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, at: datetime, changes: list[ExampleChange]
) -> None:
    """Insert examples that do not exist; one that exists in this dataset gets a new version.

    Raises:
        ExampleConflictError: an id is taken by another dataset.
    """
    current = await current_examples(connection, tenant_id, [change.example_id for change in changes])
    for row in current.values():
        _check_dataset(row, dataset_id)
    await _write(connection, tenant_id, dataset_id, at, changes, current)


async def update_examples(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, at: datetime, changes: list[ExampleChange]
) -> int:
    """New versions of existing examples; how many.

    Raises:
        ExampleConflictError: one does not exist, or belongs to another dataset.
    """
    current = await current_examples(connection, tenant_id, [change.example_id for change in changes])
    for change in changes:
        row = current.get(change.example_id)
        if row is None:
            raise ExampleConflictError(f"Example {change.example_id} does not exist.")
        _check_dataset(row, dataset_id)
    await _write(connection, tenant_id, dataset_id, at, changes, current)
    return len(changes)


async def current_examples(
    connection: Connection, tenant_id: UUID, example_ids: list[UUID]
) -> dict[UUID, DictRow]:
    cursor = await connection.execute(
        "SELECT * FROM examples WHERE tenant_id = %s AND id = ANY(%s) AND valid_to IS NULL ORDER BY id FOR UPDATE",
        (tenant_id, example_ids),
    )
    return {row["id"]: row for row in await cursor.fetchall()}


async def close_examples(
    connection: Connection, tenant_id: UUID, example_ids: Iterable[UUID], at: datetime
) -> int:
    """End the current versions: the examples are gone from now on, earlier versions still have them."""
    cursor = await connection.execute(
        "UPDATE examples SET valid_to = %s WHERE tenant_id = %s AND id = ANY(%s) AND valid_to IS NULL",
        (at, tenant_id, list(example_ids)),
    )
    return cursor.rowcount


async def erase_examples(
    connection: Connection, tenant_id: UUID, example_ids: list[UUID]
) -> tuple[int, list[str]]:
    """Delete examples from every version; how many, and the object keys of their attachments."""
    cursor = await connection.execute(
        "DELETE FROM examples WHERE tenant_id = %s AND id = ANY(%s) RETURNING id, attachments",
        (tenant_id, example_ids),
    )
    rows = await cursor.fetchall()
    keys = {file["key"] for row in rows for file in row["attachments"].values()}
    return len({row["id"] for row in rows}), sorted(keys)


async def _write(
    connection: Connection,
    tenant_id: UUID,
    dataset_id: UUID,
    at: datetime,
    changes: list[ExampleChange],
    current: dict[UUID, DictRow],
) -> None:
    await close_examples(connection, tenant_id, current, at)
    await connection.cursor().executemany(
        "INSERT INTO examples (dataset_id, id, tenant_id, valid_from, name, inputs, outputs, metadata, source_run_id,"
        " attachments, created_at) VALUES (%(dataset_id)s, %(id)s, %(tenant_id)s, %(at)s, %(name)s, %(inputs)s,"
        " %(outputs)s, %(metadata)s, %(source_run_id)s, %(attachments)s, %(created_at)s)",
        [
            {
                "dataset_id": dataset_id,
                "tenant_id": tenant_id,
                "at": at,
                **merged(change, current.get(change.example_id), at),
            }
            for change in changes
        ],
    )


def merged(change: ExampleChange, row: DictRow | None, at: datetime) -> dict[str, Any]:
    """Columns of an example's next version."""
    old: dict[str, Any] = dict(row) if row else {"metadata": {}, "attachments": {}}
    outputs = change.outputs if change.outputs is not None else old.get("outputs")
    return {
        "id": change.example_id,
        "name": old.get("name") or f"#{str(change.example_id)[:4]}",
        "inputs": Json(change.inputs if change.inputs is not None else old.get("inputs") or {}),
        "outputs": None if outputs is None else Json(outputs),
        "metadata": Jsonb(_metadata(change, old["metadata"])),
        "source_run_id": change.source_run_id or old.get("source_run_id"),
        "attachments": Jsonb(_attachments(change, old["attachments"])),
        "created_at": old.get("created_at") or change.created_at or at,
    }


def _metadata(change: ExampleChange, old: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(old if change.metadata is None else change.metadata)
    splits = change.splits or metadata.get("dataset_split") or old.get("dataset_split") or [DEFAULT_SPLIT]
    metadata["dataset_split"] = [splits] if isinstance(splits, str) else splits
    return metadata


def _attachments(change: ExampleChange, old: dict[str, Any]) -> dict[str, Any]:
    kept = dict(old)
    if change.retain is not None or change.rename is not None:
        names = {name: name for name in change.retain or ()} | (change.rename or {})
        kept = {names[name]: file for name, file in old.items() if name in names}
    new = {
        item.name: {"key": item.key, "mime_type": item.mime_type, "size": len(item.data)}
        for item in change.attachments
    }
    return {**kept, **change.copied_attachments, **new}


def _check_dataset(row: DictRow, dataset_id: UUID) -> None:
    if row["dataset_id"] != dataset_id:
        raise ExampleConflictError(f"Example {row['id']} belongs to another dataset.")
