"""Datasets (trace contract §5.8)."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json, Jsonb

from storage.database import Connection
from storage.filters.sql import escape_pattern
from storage.ids import new_id

_FIELDS = (
    *("id", "name", "description", "data_type", "inputs_schema_definition", "outputs_schema_definition"),
    *("transformations", "metadata", "extra"),
)
CHANGEABLE = _FIELDS[1:]
_JSON = {"inputs_schema_definition", "outputs_schema_definition", "transformations", "extra"}
_SELECT = """
SELECT d.id, d.tenant_id, d.name, d.description, d.data_type, d.inputs_schema_definition, d.outputs_schema_definition,
    d.transformations, d.metadata, d.extra, d.created_at, d.modified_at,
    (SELECT count(*) FROM examples e WHERE e.dataset_id = d.id AND e.valid_to IS NULL) AS example_count,
    (SELECT count(*) FROM projects p WHERE p.tenant_id = d.tenant_id AND p.reference_dataset_id = d.id
        AND p.deleted_at IS NULL) AS session_count,
    (SELECT max(p.start_time) FROM projects p WHERE p.tenant_id = d.tenant_id AND p.reference_dataset_id = d.id
        AND p.deleted_at IS NULL) AS last_session_start_time
FROM datasets d WHERE d.tenant_id = %(tenant_id)s
"""


@dataclass
class DatasetQuery:
    ids: list[UUID] | None = None
    name: str | None = None
    name_contains: str | None = None
    data_types: list[str] | None = None
    metadata: dict[str, Any] | None = None
    limit: int = 100
    offset: int = 0


async def create_dataset(connection: Connection, tenant_id: UUID, fields: dict[str, Any]) -> DictRow | None:
    """The new dataset; None if its name or id is taken."""
    values = {name: _json(name, fields.get(name)) for name in _FIELDS}
    values["id"] = values["id"] or new_id()
    values["data_type"] = values["data_type"] or "kv"
    cursor = await connection.execute(
        f"INSERT INTO datasets (tenant_id, {', '.join(_FIELDS)})"
        f" VALUES (%(tenant_id)s, {', '.join(f'%({name})s' for name in _FIELDS)})"
        " ON CONFLICT DO NOTHING RETURNING id".encode(),
        {**values, "tenant_id": tenant_id},
    )
    row = await cursor.fetchone()
    return await get_dataset(connection, tenant_id, row["id"]) if row else None


async def list_datasets(connection: Connection, tenant_id: UUID, query: DatasetQuery) -> list[DictRow]:
    """Newest first."""
    where = ""
    parameters: dict[str, Any] = {"tenant_id": tenant_id, "limit": query.limit, "offset": query.offset}
    part = None if query.name_contains is None else f"%{escape_pattern(query.name_contains)}%"
    for condition, name, value in (
        ("d.id = ANY(%(ids)s)", "ids", query.ids),
        ("d.name = %(name)s", "name", query.name),
        ("d.name ILIKE %(part)s", "part", part),
        ("d.data_type = ANY(%(data_types)s)", "data_types", query.data_types),
        ("d.metadata @> %(metadata)s", "metadata", None if query.metadata is None else Jsonb(query.metadata)),
    ):
        if value is not None:
            where += f" AND {condition}"
            parameters[name] = value
    cursor = await connection.execute(
        f"{_SELECT}{where} ORDER BY d.created_at DESC, d.id DESC LIMIT %(limit)s OFFSET %(offset)s".encode(),
        parameters,
    )
    return await cursor.fetchall()


async def get_dataset(connection: Connection, tenant_id: UUID, dataset_id: UUID) -> DictRow | None:
    rows = await list_datasets(connection, tenant_id, DatasetQuery(ids=[dataset_id]))
    return rows[0] if rows else None


async def update_dataset(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, changes: dict[str, Any]
) -> DictRow | None:
    """The dataset with `changes` of `CHANGEABLE`; None if there is none.

    Raises:
        psycopg.errors.UniqueViolation: another dataset has the new name.
    """
    given = {name: _json(name, changes[name]) for name in CHANGEABLE if name in changes}
    assignments = "".join(f", {name} = %({name})s" for name in given)
    await connection.execute(
        f"UPDATE datasets SET modified_at = now(){assignments}"
        " WHERE tenant_id = %(tenant_id)s AND id = %(id)s".encode(),
        {**given, "tenant_id": tenant_id, "id": dataset_id},
    )
    return await get_dataset(connection, tenant_id, dataset_id)


async def delete_dataset(connection: Connection, tenant_id: UUID, dataset_id: UUID) -> tuple[bool, list[str]]:
    """Delete a dataset with all examples; whether there was one, and the object keys of their attachments."""
    cursor = await connection.execute(
        "SELECT DISTINCT file.value ->> 'key' AS key FROM examples e, jsonb_each(e.attachments) AS file"
        " WHERE e.tenant_id = %s AND e.dataset_id = %s",
        (tenant_id, dataset_id),
    )
    keys = [row["key"] for row in await cursor.fetchall()]
    cursor = await connection.execute(
        "DELETE FROM datasets WHERE tenant_id = %s AND id = %s", (tenant_id, dataset_id)
    )
    return (True, keys) if cursor.rowcount else (False, [])


def _json(name: str, value: Any) -> Any:
    if value is None:
        return None
    return Jsonb(value) if name == "metadata" else Json(value) if name in _JSON else value
