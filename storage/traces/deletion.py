"""Complete deletion of runs: rows, keys and feedback at once; objects of attachments are doomed with them.

A doomed object's key is kept until the object store has deleted it, so that none is forgotten.
"""

from typing import Any
from uuid import UUID

from storage.database import Connection
from storage.traces.keys import lock_keys
from storage.traces.subtree import renew_sums

BATCH = 1_000


async def delete_runs_by_id(
    connection: Connection, tenant_id: UUID, run_ids: list[UUID]
) -> tuple[int, list[str]]:
    """Delete runs; how many there were, and the now doomed object keys of their attachments.

    Keys go too: the same run sent again would be a new one. Tokens and costs of the ancestors that stay are summed up
    again, so that a run's sums are always those of what is stored below it.
    """
    ancestors = await _summing_ancestors(connection, tenant_id, run_ids)
    while True:
        # All at once and in order of id, as ingestion does.
        keys = await lock_keys(connection, tenant_id, {*run_ids, *ancestors})
        found = await _summing_ancestors(connection, tenant_id, run_ids)
        if found <= ancestors:
            break
        ancestors |= found
    doomed_keys = [keys[run_id] for run_id in keys.keys() & set(run_ids)]
    cursor = await connection.execute(
        "DELETE FROM trace_runs r USING unnest(%s::uuid[], %s::uuid[], %s::timestamptz[])"
        " AS given (id, session_id, start_time) WHERE r.tenant_id = %s AND r.session_id = given.session_id"
        " AND r.start_time = given.start_time AND r.id = given.id RETURNING r.attachments",
        (
            [key.run_id for key in doomed_keys],
            [key.session_id for key in doomed_keys],
            [key.start_time for key in doomed_keys],
            tenant_id,
        ),
    )
    deleted = await cursor.fetchall()
    ids = [key.run_id for key in doomed_keys]
    await connection.execute(
        "DELETE FROM feedback WHERE tenant_id = %s AND run_id = ANY(%s)", (tenant_id, ids)
    )
    await connection.execute(
        "DELETE FROM trace_run_keys WHERE tenant_id = %s AND id = ANY(%s)", (tenant_id, ids)
    )
    await renew_sums(connection, tenant_id, [keys[run_id] for run_id in ancestors if run_id in keys])
    doomed = [key for row in deleted for key in object_keys(row["attachments"])]
    await doom(connection, doomed)
    return len(deleted), doomed


async def _summing_ancestors(connection: Connection, tenant_id: UUID, run_ids: list[UUID]) -> set[UUID]:
    """Runs that are not to be deleted, and whose sums hold something of those that are."""
    cursor = await connection.execute(
        "SELECT DISTINCT unnest(r.parent_run_ids) AS id FROM trace_run_keys k JOIN trace_runs r"
        " ON r.session_id = k.session_id AND r.start_time = k.start_time AND r.id = k.id"
        " WHERE k.tenant_id = %s AND k.id = ANY(%s) AND r.tenant_id = k.tenant_id"
        " AND r.own_usage -> 'counted' IS NOT NULL",
        (tenant_id, run_ids),
    )
    return {row["id"] for row in await cursor.fetchall()}.difference(run_ids)


async def doom(connection: Connection, keys: list[str]) -> None:
    """Remember objects that are to be deleted."""
    if keys:
        await connection.execute(
            "INSERT INTO doomed_objects (object_key) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING",
            (keys,),
        )


async def doomed_objects(connection: Connection, limit: int) -> list[str]:
    """Keys of objects that are still to be deleted, oldest first; not of those that are being uploaded."""
    cursor = await connection.execute(
        "SELECT object_key FROM doomed_objects WHERE due_at <= now() ORDER BY due_at LIMIT %s", (limit,)
    )
    return [row["object_key"] for row in await cursor.fetchall()]


async def forget_objects(connection: Connection, keys: list[str]) -> None:
    """The object store has deleted these."""
    await connection.execute("DELETE FROM doomed_objects WHERE object_key = ANY(%s)", (keys,))


async def runs_of_traces(connection: Connection, tenant_id: UUID, trace_ids: list[UUID]) -> list[UUID]:
    """At most `BATCH` runs of the traces."""
    cursor = await connection.execute(
        "SELECT id FROM trace_runs WHERE tenant_id = %s AND trace_id = ANY(%s) LIMIT %s",
        (tenant_id, trace_ids, BATCH),
    )
    return [row["id"] for row in await cursor.fetchall()]


def object_keys(attachments: dict[str, Any] | None) -> list[str]:
    """Where the files of an `attachments` column are."""
    return [file["key"] for file in (attachments or {}).values()]
