"""What of the trace store has expired: runs by tier, deleted projects, objects nobody refers to; and partitions."""

from collections import defaultdict
from datetime import datetime
from uuid import UUID

from storage.database import Connection
from storage.traces.deletion import BATCH, delete_runs_by_id, doom, object_keys


async def delete_expired_runs(connection: Connection, tier: str, before: datetime) -> tuple[int, list[str]]:
    """Delete a batch of runs of a tier that started before a moment; how many, and doomed object keys."""
    cursor = await connection.execute(
        "SELECT tenant_id, id FROM trace_runs WHERE trace_tier = %s AND start_time < %s LIMIT %s",
        (tier, before, BATCH),
    )
    return await _delete(connection, [(row["tenant_id"], row["id"]) for row in await cursor.fetchall()])


async def delete_runs_of_deleted_projects(connection: Connection) -> tuple[int, list[str]]:
    """The same for runs of projects that were deleted; a project without runs goes itself, with its feedback.

    Where only such projects were left, how many of them.
    """
    cursor = await connection.execute(
        "SELECT id, tenant_id FROM projects WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT 100 FOR UPDATE"
    )
    projects = await cursor.fetchall()
    for project in projects:
        cursor = await connection.execute(
            "SELECT tenant_id, id FROM trace_runs WHERE tenant_id = %s AND session_id = %s LIMIT %s",
            (project["tenant_id"], project["id"], BATCH),
        )
        rows = await cursor.fetchall()
        if rows:
            return await _delete(connection, [(row["tenant_id"], row["id"]) for row in rows])
        await connection.execute(
            "DELETE FROM feedback WHERE tenant_id = %s AND session_id = %s",
            (project["tenant_id"], project["id"]),
        )
        await connection.execute("DELETE FROM projects WHERE id = %s", (project["id"],))
    return len(projects), []


async def drop_empty_partitions(connection: Connection, before: datetime) -> int:
    """Drop monthly partitions that end before a moment and hold nothing."""
    cursor = await connection.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'trace_runs'::regclass AND c.relname ~ '^trace_runs_\\d{4}_\\d{2}$'"
        " AND to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month' < %s ORDER BY 1",
        (before,),
    )
    dropped = 0
    for row in await cursor.fetchall():
        held = await connection.execute(f"SELECT 1 FROM {row['relname']} LIMIT 1".encode())
        if await held.fetchone() is None:
            # Dropping waits for every reader of the parent, and everybody waits behind it: rather next time.
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            await connection.execute(f"DROP TABLE {row['relname']}".encode())
            dropped += 1
    return dropped


async def _delete(connection: Connection, runs: list[tuple[UUID, UUID]]) -> tuple[int, list[str]]:
    by_tenant: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for tenant_id, run_id in runs:
        by_tenant[tenant_id].append(run_id)
    keys: list[str] = []
    for tenant_id, run_ids in by_tenant.items():
        _, doomed = await delete_runs_by_id(connection, tenant_id, run_ids)
        keys += doomed + await _delete_keyless(connection, tenant_id, run_ids)
    return len(runs), keys


async def _delete_keyless(connection: Connection, tenant_id: UUID, run_ids: list[UUID]) -> list[str]:
    """Rows that no key points to, restored or loaded by hand: left alone, every batch would select them again."""
    cursor = await connection.execute(
        "DELETE FROM trace_runs r WHERE r.tenant_id = %s AND r.id = ANY(%s) AND NOT EXISTS"
        " (SELECT FROM trace_run_keys k WHERE k.tenant_id = r.tenant_id AND k.id = r.id) RETURNING r.attachments",
        (tenant_id, run_ids),
    )
    doomed = [key for row in await cursor.fetchall() for key in object_keys(row["attachments"])]
    await doom(connection, doomed)
    return doomed
