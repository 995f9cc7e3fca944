"""Final statuses of runs that no revision worker settled: cancelled, timed out, given up, rolled back.

For platform activities: they act for the workflow of a thread, whose id is authority enough.
"""

from uuid import UUID

from psycopg.types.json import Json, Jsonb

from storage.database import Connection
from storage.thread_events import end_run_events, withdraw_run_events

NOTIFY_THREAD = "SELECT pg_notify('slipway_threads', %s)"

# What a thread is once its run has ended: busy while others wait; interrupted where its graph has a next step.
_REFRESH_THREAD = """
UPDATE threads t SET
    values = coalesce(s.state -> 'values', 'null')::jsonb,
    interrupts = coalesce(s.interrupts, '{}'),
    error = %(error)s,
    status = CASE
        WHEN EXISTS (SELECT FROM runs WHERE thread_id = t.thread_id AND status IN ('pending', 'running')) THEN 'busy'
        WHEN %(error)s::jsonb IS NOT NULL THEN 'error'
        WHEN json_array_length(coalesce(s.state -> 'next', '[]')) > 0 THEN 'interrupted'
        ELSE 'idle' END,
    updated_at = now(), state_updated_at = now()
FROM (SELECT 1) one LEFT JOIN LATERAL (
    SELECT state, (SELECT jsonb_object_agg(task ->> 'id', task -> 'interrupts')
                   FROM json_array_elements(state -> 'tasks') task
                   WHERE json_array_length(task -> 'interrupts') > 0) AS interrupts
    FROM thread_states WHERE thread_id = %(thread_id)s AND checkpoint_ns = ''
    ORDER BY checkpoint_id DESC LIMIT 1) s ON true
WHERE t.thread_id = %(thread_id)s
"""

# A worker records a state as soon as its checkpoint is made, and may be stopped before that checkpoint is stored.
_DROP_ORPHANS = """
DELETE FROM thread_states s WHERE s.thread_id = %(thread_id)s AND s.run_id = %(run_id)s AND NOT EXISTS (
    SELECT FROM checkpoints c WHERE c.thread_id = %(thread_id)s::text AND c.checkpoint_ns = s.checkpoint_ns
    AND c.checkpoint_id = s.checkpoint_id)
"""


async def settle_run(
    connection: Connection, thread_id: UUID, run_id: UUID, status: str, error: dict[str, str] | None
) -> bool:
    """Give an unfinished run its final status and refresh its thread; False if it had one already."""
    await connection.execute("SELECT FROM threads WHERE thread_id = %s FOR UPDATE", (thread_id,))
    cursor = await connection.execute(
        "UPDATE runs SET status = %(status)s, error = %(error)s, ended_at = now(), updated_at = now()"
        " WHERE run_id = %(run_id)s AND thread_id = %(thread_id)s AND status IN ('pending', 'running')",
        {"status": status, "error": Json(error) if error else None, "run_id": run_id, "thread_id": thread_id},
    )
    if cursor.rowcount == 0:
        return False
    # From here on the fence refuses its worker: no checkpoint of it is stored any more.
    await connection.execute(_DROP_ORPHANS, {"thread_id": thread_id, "run_id": run_id})
    await end_run_events(connection, thread_id, run_id, status, error)
    await refresh_thread(connection, thread_id, error)
    return True


async def roll_back_run(connection: Connection, thread_id: UUID, run_id: UUID) -> None:
    """Delete a run with all it wrote; its thread is then as before it. Repeating changes nothing."""
    await connection.execute("SELECT FROM threads WHERE thread_id = %s FOR UPDATE", (thread_id,))
    ids = {"thread_id": thread_id, "thread": str(thread_id), "run_id": run_id, "run": str(run_id)}
    await connection.execute("DELETE FROM runs WHERE run_id = %(run_id)s AND thread_id = %(thread_id)s", ids)
    await connection.execute(
        "WITH gone AS (DELETE FROM checkpoints WHERE thread_id = %(thread)s AND metadata ->> 'run_id' = %(run)s"
        "   RETURNING checkpoint_ns, checkpoint_id)"
        " DELETE FROM checkpoint_writes w USING gone WHERE w.thread_id = %(thread)s"
        " AND w.checkpoint_ns = gone.checkpoint_ns AND w.checkpoint_id = gone.checkpoint_id",
        ids,
    )
    await connection.execute(
        "DELETE FROM thread_states WHERE thread_id = %(thread_id)s AND run_id = %(run_id)s", ids
    )
    await withdraw_run_events(connection, thread_id, run_id)
    await refresh_thread(connection, thread_id, None)


async def delete_run(connection: Connection, thread_id: UUID, run_id: UUID) -> None:
    """Delete a run's row and events; what it did to its thread's state stays."""
    await connection.execute("SELECT FROM threads WHERE thread_id = %s FOR UPDATE", (thread_id,))
    await connection.execute("DELETE FROM runs WHERE run_id = %s AND thread_id = %s", (run_id, thread_id))
    await withdraw_run_events(connection, thread_id, run_id)
    await refresh_thread(connection, thread_id, None)


async def refresh_thread(connection: Connection, thread_id: UUID, error: dict[str, str] | None) -> None:
    """Bring a thread's values, interrupts and status in step with its newest state and its runs."""
    await connection.execute(
        _REFRESH_THREAD, {"thread_id": thread_id, "error": Jsonb(error) if error else None}
    )
    await connection.execute(NOTIFY_THREAD, (str(thread_id),))
