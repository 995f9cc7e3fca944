"""Reading examples of datasets, at any version (trace contract §5.8)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.database import Connection

COLUMNS = (
    "e.dataset_id, e.id, e.name, e.inputs, e.outputs, e.metadata, e.source_run_id, e.attachments, e.created_at,"
    " e.valid_from AS modified_at"
)
# Filters of examples speak of metadata only; they find it under the name that it has in runs.
_FILTERABLE = "(SELECT *, slipway_pairs(metadata::text) AS metadata_pairs FROM examples) e"


@dataclass
class ExampleQuery:
    """What examples to read. `as_of` None: the current ones. `condition` is SQL over `e` with its parameters."""

    dataset_id: UUID | None = None
    ids: list[UUID] | None = None
    as_of: datetime | None = None
    splits: list[str] | None = None
    metadata: dict[str, Any] | None = None
    condition: tuple[str, dict[str, Any]] | None = None
    limit: int = 100
    offset: int = 0


async def list_examples(connection: Connection, tenant_id: UUID, query: ExampleQuery) -> list[DictRow]:
    """Newest first."""
    where = ["e.tenant_id = %(tenant_id)s"]
    parameters: dict[str, Any] = {"tenant_id": tenant_id, "limit": query.limit, "offset": query.offset}
    if query.as_of is None:
        where.append("e.valid_to IS NULL")
    for condition, name, value in (
        (
            "e.valid_from <= %(as_of)s AND (e.valid_to IS NULL OR e.valid_to > %(as_of)s)",
            "as_of",
            query.as_of,
        ),
        ("e.dataset_id = %(dataset)s", "dataset", query.dataset_id),
        ("e.id = ANY(%(ids)s)", "ids", query.ids),
        ("e.metadata -> 'dataset_split' ?| %(splits)s", "splits", query.splits),
        ("e.metadata @> %(metadata)s", "metadata", None if query.metadata is None else Jsonb(query.metadata)),
    ):
        if value is not None:
            where.append(condition)
            parameters[name] = value
    if query.condition:
        where.append(query.condition[0])
        parameters |= query.condition[1]
    cursor = await connection.execute(
        f"SELECT {COLUMNS} FROM {_FILTERABLE if query.condition else 'examples e'} WHERE {' AND '.join(where)}"
        " ORDER BY e.created_at DESC, e.id DESC LIMIT %(limit)s OFFSET %(offset)s".encode(),
        parameters,
    )
    return await cursor.fetchall()


async def count_examples(connection: Connection, tenant_id: UUID, dataset_id: UUID) -> int:
    """Current examples of a dataset."""
    cursor = await connection.execute(
        "SELECT count(*) AS n FROM examples WHERE tenant_id = %s AND dataset_id = %s AND valid_to IS NULL",
        (tenant_id, dataset_id),
    )
    row = await cursor.fetchone()
    return int(row["n"]) if row else 0


async def dataset_splits(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, as_of: datetime | None
) -> list[str]:
    """Names of the splits of a dataset's version."""
    cursor = await connection.execute(
        "SELECT DISTINCT split FROM examples e, jsonb_array_elements_text(e.metadata -> 'dataset_split') AS split"
        " WHERE e.tenant_id = %(tenant_id)s AND e.dataset_id = %(dataset)s"
        " AND CASE WHEN %(as_of)s::timestamptz IS NULL THEN e.valid_to IS NULL"
        " ELSE e.valid_from <= %(as_of)s AND (e.valid_to IS NULL OR e.valid_to > %(as_of)s) END ORDER BY split",
        {"tenant_id": tenant_id, "dataset": dataset_id, "as_of": as_of},
    )
    return [row["split"] for row in await cursor.fetchall()]


async def datasets_of_examples(
    connection: Connection, tenant_id: UUID, example_ids: list[UUID]
) -> dict[UUID, UUID]:
    """The dataset of each example, deleted examples included; unknown ones are left out."""
    cursor = await connection.execute(
        "SELECT DISTINCT id, dataset_id FROM examples WHERE tenant_id = %s AND id = ANY(%s)",
        (tenant_id, example_ids),
    )
    return {row["id"]: row["dataset_id"] for row in await cursor.fetchall()}


async def document_keys(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, as_of: datetime
) -> tuple[list[str], list[str]]:
    """The keys that inputs and outputs of a version's examples have, in alphabetical order."""
    found = []
    for document in ("inputs", "outputs"):  # both are objects or NULL
        cursor = await connection.execute(
            f"SELECT DISTINCT key FROM examples e, json_object_keys(e.{document}) AS key"
            " WHERE e.tenant_id = %(tenant_id)s AND e.dataset_id = %(dataset)s AND e.valid_from <= %(as_of)s"
            " AND (e.valid_to IS NULL OR e.valid_to > %(as_of)s) ORDER BY key",
            {"tenant_id": tenant_id, "dataset": dataset_id, "as_of": as_of},
        )
        found.append([row["key"] for row in await cursor.fetchall()])
    return found[0], found[1]
