"""Copying a thread, and measuring what one takes."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.ids import new_id
from storage.scope import ScopedRepository
from storage.threads import COLUMNS

# One statement, so one snapshot: a running run cannot make a copy that mixes two states. Texts of states name the
# thread in their checkpoints and metadata; what users put into `values` is left alone.
_COPY = """
WITH source AS (
    SELECT * FROM threads WHERE {scope} AND thread_id = %(source)s AND NOT temporary
), copied AS (
    INSERT INTO threads (thread_id, deployment_id, tenant_id, metadata, config, values, interrupts, ttl_strategy,
        ttl_minutes, expires_at, state_updated_at)
    SELECT %(copy)s, deployment_id, tenant_id, metadata, config, values, interrupts, ttl_strategy, ttl_minutes,
        now() + make_interval(secs => ttl_minutes * 60), state_updated_at FROM source
    RETURNING *
), copied_checkpoints AS (
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint,
        metadata, deployment_id)
    SELECT %(copy)s::text, c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id, c.type, c.checkpoint,
        CASE WHEN c.metadata ? 'thread_id' THEN c.metadata || jsonb_build_object('thread_id', %(copy)s::text)
            ELSE c.metadata END, c.deployment_id
    FROM source JOIN checkpoints c ON c.thread_id = source.thread_id::text
), copied_blobs AS (
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob, deployment_id)
    SELECT %(copy)s::text, b.checkpoint_ns, b.channel, b.version, b.type, b.blob, b.deployment_id
    FROM source JOIN checkpoint_blobs b ON b.thread_id = source.thread_id::text
), copied_writes AS (
    INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob,
        task_path, deployment_id)
    SELECT %(copy)s::text, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.idx, w.channel, w.type, w.blob,
        w.task_path, w.deployment_id
    FROM source JOIN checkpoint_writes w ON w.thread_id = source.thread_id::text
), copied_states AS (
    INSERT INTO thread_states (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, deployment_id, run_id,
        metadata, state, created_at)
    SELECT %(copy)s, s.checkpoint_ns, s.checkpoint_id, s.parent_checkpoint_id, s.deployment_id, s.run_id,
        replace(s.metadata::text, %(source)s::text, %(copy)s::text)::jsonb,
        (SELECT json_object_agg(key, CASE WHEN key = 'values' THEN value
            ELSE replace(value::text, %(source)s::text, %(copy)s::text)::json END) FROM json_each(s.state)),
        s.created_at
    FROM source JOIN thread_states s ON s.thread_id = source.thread_id
)
"""

_STORAGE = """
SELECT
    (SELECT jsonb_build_object('count', count(*), 'bytes',
        coalesce(sum(pg_column_size(c.checkpoint) + pg_column_size(c.metadata)), 0))
        FROM checkpoints c WHERE c.thread_id = t.thread_id::text) AS checkpoints,
    (SELECT coalesce(jsonb_object_agg(channel, jsonb_build_object('count', count, 'bytes', bytes)), '{}')
        FROM (SELECT channel, count(*), coalesce(sum(pg_column_size(blob)), 0) AS bytes FROM checkpoint_blobs b
            WHERE b.thread_id = t.thread_id::text GROUP BY channel) by_channel) AS channels,
    (SELECT jsonb_build_object('count', count(*), 'bytes', coalesce(sum(pg_column_size(w.blob)), 0))
        FROM checkpoint_writes w WHERE w.thread_id = t.thread_id::text) AS writes
FROM threads t
"""


class ThreadCopies(ScopedRepository):
    """Copies and sizes of one deployment's threads."""

    async def copy(self, thread_id: UUID) -> DictRow | None:
        """A new idle thread with the state and history of another, runs left out; None if there is no such thread."""
        return await self.one(
            _COPY + f"SELECT {COLUMNS} FROM copied", {"source": thread_id, "copy": new_id()}
        )

    async def storage(self, thread_id: UUID) -> dict[str, Any] | None:
        """Rows and bytes: `checkpoints`, `channels` by name, `writes`; None if there is no such thread."""
        return await self.one(
            _STORAGE + " WHERE t.thread_id = %(thread_id)s AND t.thread_id IN"
            " (SELECT thread_id FROM threads WHERE {scope} AND thread_id = %(thread_id)s)",
            {"thread_id": thread_id},
        )
