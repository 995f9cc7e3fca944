"""Keys of runs: one row per run of a tenant, which makes ids unique over partitions and serialises changes."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.database import Connection


@dataclass(frozen=True, slots=True)
class RunKey:
    """Where a run's row is. `start_time` is None while only others spoke of the run: there is no row."""

    run_id: UUID
    session_id: UUID | None
    start_time: datetime | None


NewKey = tuple[UUID, UUID | None, datetime | None]


async def insert_keys(connection: Connection, tenant_id: UUID, keys: list[NewKey]) -> set[UUID]:
    """Insert the keys that do not exist, in order of id; returns the ids that were new.

    Waits for other transactions that insert one of them. All callers use the same order, so none waits in a circle.
    """
    ordered = sorted(keys, key=lambda key: key[0].int)
    cursor = await connection.execute(
        "INSERT INTO trace_run_keys (tenant_id, id, session_id, start_time)"
        " SELECT %s, given.* FROM unnest(%b::uuid[], %b::uuid[], %b::timestamptz[]) given"
        " ON CONFLICT DO NOTHING RETURNING id",
        (tenant_id, [key[0] for key in ordered], [key[1] for key in ordered], [key[2] for key in ordered]),
    )
    return {row["id"] for row in await cursor.fetchall()}


async def lock_keys(connection: Connection, tenant_id: UUID, run_ids: set[UUID]) -> dict[UUID, RunKey]:
    """Lock existing keys until the transaction ends, in order of id; ids without a key are left out."""
    cursor = await connection.execute(
        "SELECT id, session_id, start_time FROM trace_run_keys WHERE tenant_id = %s AND id = ANY(%s)"
        " ORDER BY id FOR UPDATE",
        (tenant_id, list(run_ids)),
    )
    return {
        row["id"]: RunKey(row["id"], row["session_id"], row["start_time"]) for row in await cursor.fetchall()
    }


async def find_keys(connection: Connection, tenant_id: UUID, run_ids: list[UUID]) -> list[RunKey]:
    """Keys of the runs that have a row."""
    cursor = await connection.execute(
        "SELECT id, session_id, start_time FROM trace_run_keys"
        " WHERE tenant_id = %s AND id = ANY(%s) AND start_time IS NOT NULL",
        (tenant_id, run_ids),
    )
    return [RunKey(row["id"], row["session_id"], row["start_time"]) for row in await cursor.fetchall()]


async def move_keys(connection: Connection, tenant_id: UUID, keys: list[NewKey]) -> None:
    """Say where the rows of existing keys are now."""
    if keys:
        await connection.execute(
            "UPDATE trace_run_keys k SET session_id = given.session_id, start_time = given.start_time"
            " FROM unnest(%s::uuid[], %s::uuid[], %s::timestamptz[]) AS given (id, session_id, start_time)"
            " WHERE k.tenant_id = %s AND k.id = given.id",
            ([key[0] for key in keys], [key[1] for key in keys], [key[2] for key in keys], tenant_id),
        )
