"""Reading tracing projects: lists with filters, and one by id."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.database import Connection
from storage.filters.sql import escape_pattern

COLUMNS = (
    "id, tenant_id, name, description, extra, reference_dataset_id, default_dataset_id, num_examples,"
    " num_repetitions, evaluator_keys, trace_tier, start_time, end_time, created_at, modified_at"
)
SORT_COLUMNS = ("start_time", "name", "created_at", "modified_at", "end_time")


@dataclass
class ProjectQuery:
    """What projects to list. `experiments` True: only those on a dataset, False: only the others."""

    ids: list[UUID] | None = None
    name: str | None = None
    name_contains: str | None = None
    reference_dataset_ids: list[UUID] | None = None
    experiments: bool | None = None
    metadata: dict[str, Any] | None = None
    sort_by: str = "start_time"
    descending: bool = True
    limit: int = 100
    offset: int = 0


async def list_projects(connection: Connection, tenant_id: UUID, query: ProjectQuery) -> list[DictRow]:
    """Rows of `COLUMNS`.

    Raises:
        ValueError: `sort_by` is none of `SORT_COLUMNS`.
    """
    if query.sort_by not in SORT_COLUMNS:
        raise ValueError(f"sort_by: {query.sort_by!r}; one of {', '.join(SORT_COLUMNS)}")
    where = ["tenant_id = %(tenant_id)s", "deleted_at IS NULL"]
    parameters: dict[str, Any] = {"tenant_id": tenant_id, "limit": query.limit, "offset": query.offset}

    def add(condition: str, name: str, value: Any) -> None:
        if value is not None:
            where.append(condition)
            parameters[name] = value

    add("id = ANY(%(ids)s)", "ids", query.ids)
    add("name = %(name)s", "name", query.name)
    part = None if query.name_contains is None else f"%{escape_pattern(query.name_contains)}%"
    add("name ILIKE %(part)s", "part", part)
    add("reference_dataset_id = ANY(%(datasets)s)", "datasets", query.reference_dataset_ids)
    metadata = None if query.metadata is None else Jsonb(query.metadata)
    add("(extra::jsonb -> 'metadata') @> %(metadata)s", "metadata", metadata)
    if query.experiments is not None:
        where.append(f"reference_dataset_id IS {'NOT ' if query.experiments else ''}NULL")
    direction = "DESC" if query.descending else "ASC"
    cursor = await connection.execute(
        f"SELECT {COLUMNS} FROM projects WHERE {' AND '.join(where)}"
        f" ORDER BY {query.sort_by} {direction} NULLS LAST, id {direction}"
        " LIMIT %(limit)s OFFSET %(offset)s".encode(),
        parameters,
    )
    return await cursor.fetchall()


async def get_project(connection: Connection, tenant_id: UUID, project_id: UUID) -> DictRow | None:
    """Row of `COLUMNS`; None if the workspace has no such project."""
    rows = await list_projects(connection, tenant_id, ProjectQuery(ids=[project_id], limit=1))
    return rows[0] if rows else None


async def live_projects(
    connection: Connection, tenant_id: UUID, project_ids: list[UUID] | None
) -> list[UUID]:
    """Those of the given projects that the workspace has; all of its projects for None."""
    cursor = await connection.execute(
        "SELECT id FROM projects WHERE tenant_id = %(tenant_id)s AND deleted_at IS NULL"
        " AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s))",
        {"tenant_id": tenant_id, "ids": project_ids},
    )
    return [row["id"] for row in await cursor.fetchall()]
