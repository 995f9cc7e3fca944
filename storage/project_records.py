"""Creating, changing and deleting tracing projects."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json

from storage.database import Connection
from storage.ids import new_id
from storage.project_lists import COLUMNS

_JSON = {"extra"}
CHANGEABLE = ("name", "description", "extra", "end_time", "default_dataset_id", "trace_tier")
_CREATED = (
    *("id", "name", "description", "extra", "reference_dataset_id", "default_dataset_id", "num_examples"),
    *("num_repetitions", "evaluator_keys", "start_time", "end_time", "trace_tier"),
)


async def create_project(
    connection: Connection, tenant_id: UUID, fields: dict[str, Any], *, upsert: bool
) -> DictRow | None:
    """The new project; with `upsert` the existing one of that name, changed. None if the name or id is taken."""
    values = {name: _json(name, fields.get(name)) for name in _CREATED}
    values["id"] = values["id"] or new_id()
    merge = ", ".join(f"{name} = coalesce(excluded.{name}, projects.{name})" for name in _CREATED[2:])
    action = f"UPDATE SET modified_at = now(), {merge}" if upsert else "NOTHING"
    names = ", ".join(_CREATED)
    placeholders = ", ".join(
        "coalesce(%(start_time)s, now())" if name == "start_time" else f"%({name})s" for name in _CREATED
    )
    target = "(tenant_id, name) WHERE deleted_at IS NULL" if upsert else ""
    cursor = await connection.execute(
        f"INSERT INTO projects (tenant_id, {names}) SELECT %(tenant_id)s, {placeholders}"
        " WHERE NOT EXISTS (SELECT FROM projects WHERE id = %(id)s)"
        f" ON CONFLICT {target} DO {action} RETURNING {COLUMNS}".encode(),
        {**values, "tenant_id": tenant_id},
    )
    return await cursor.fetchone()


async def update_project(
    connection: Connection, tenant_id: UUID, project_id: UUID, changes: dict[str, Any]
) -> DictRow | None:
    """The project with `changes` of `CHANGEABLE`; None if there is none.

    Raises:
        psycopg.errors.UniqueViolation: another project has the new name.
    """
    given = {name: _json(name, changes[name]) for name in CHANGEABLE if changes.get(name) is not None}
    assignments = "".join(f", {name} = %({name})s" for name in given)
    cursor = await connection.execute(
        f"UPDATE projects SET modified_at = now(){assignments} WHERE tenant_id = %(tenant_id)s AND id = %(id)s"
        f" AND deleted_at IS NULL RETURNING {COLUMNS}".encode(),
        {**given, "tenant_id": tenant_id, "id": project_id},
    )
    return await cursor.fetchone()


async def mark_deleted(connection: Connection, tenant_id: UUID, project_id: UUID) -> bool:
    """Hide a project and all of its runs at once; its name is free again. A sweep deletes what it holds.

    Waits for ingestion into it that is under way.
    """
    cursor = await connection.execute(
        "UPDATE projects SET deleted_at = now(), modified_at = now()"
        " WHERE tenant_id = %s AND id = %s AND deleted_at IS NULL",
        (tenant_id, project_id),
    )
    return cursor.rowcount == 1


def _json(name: str, value: Any) -> Any:
    return Json(value) if name in _JSON and value is not None else value
