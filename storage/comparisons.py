"""Comparative experiments (trace contract §5.8)."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json

from storage.database import Connection
from storage.ids import new_id
from storage.traces.feedback_stats import feedback_stats


async def create_comparison(connection: Connection, tenant_id: UUID, fields: dict[str, Any]) -> DictRow:
    """A comparative experiment over experiments of one dataset."""
    cursor = await connection.execute(
        "INSERT INTO comparative_experiments (id, tenant_id, reference_dataset_id, name, description, experiment_ids,"
        " extra) VALUES (%(id)s, %(tenant_id)s, %(reference_dataset_id)s, %(name)s, %(description)s,"
        " %(experiment_ids)s, %(extra)s) RETURNING *",
        {
            "description": None,
            **fields,
            "id": fields.get("id") or new_id(),
            "extra": Json(fields.get("extra")),
            "tenant_id": tenant_id,
        },
    )
    row = await cursor.fetchone()
    assert row is not None
    return row


async def list_comparisons(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, limit: int, offset: int
) -> list[DictRow]:
    """Those on a dataset, newest first, each with `experiments_info` ({id, name}) and its `feedback_stats`."""
    cursor = await connection.execute(
        _LIST, {"tenant_id": tenant_id, "dataset_id": dataset_id, "limit": limit, "offset": offset}
    )
    rows = await cursor.fetchall()
    for row in rows:
        row["feedback_stats"] = feedback_stats(row["feedback_stats"] or ())
    return rows


_LIST = """
SELECT c.*,
    (SELECT coalesce(json_agg(json_build_object('id', p.id, 'name', p.name) ORDER BY p.start_time), '[]')
     FROM projects p WHERE p.tenant_id = c.tenant_id AND p.id = ANY(c.experiment_ids) AND p.deleted_at IS NULL)
        AS experiments_info,
    (SELECT json_agg(json_build_object('key', f.key, 'score', f.score, 'value', f.value, 'comment', f.comment,
                                       'is_error', f.is_error))
     FROM feedback f WHERE f.tenant_id = c.tenant_id AND f.session_id = ANY(c.experiment_ids)
        AND f.comparative_experiment_id = c.id) AS feedback_stats
FROM comparative_experiments c
WHERE c.tenant_id = %(tenant_id)s AND c.reference_dataset_id = %(dataset_id)s
ORDER BY c.created_at DESC, c.id DESC LIMIT %(limit)s OFFSET %(offset)s
"""


async def delete_comparison(connection: Connection, tenant_id: UUID, comparison_id: UUID) -> bool:
    cursor = await connection.execute(
        "DELETE FROM comparative_experiments WHERE tenant_id = %s AND id = %s", (tenant_id, comparison_id)
    )
    return cursor.rowcount == 1
