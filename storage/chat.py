"""Conversations as the chat's sidebar shows them, and what happens on one of them."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.scope import ScopedRepository

# Inputs beyond it (attachments) are not read only to make a title.
_MAX_TITLE_SOURCE_BYTES = 256 * 1024


class ChatThreads(ScopedRepository):
    """Threads of the chat's deployment."""

    async def newest(self, limit: int) -> list[DictRow]:
        """`thread_id`, `updated_at` and, for a title, `input` of the first run and `values` where there is no run."""
        return await self.all(
            "SELECT t.thread_id, coalesce(t.state_updated_at, t.created_at) AS updated_at, first.input,"
            " CASE WHEN first.run_id IS NULL AND pg_column_size(t.values) < %(bytes)s THEN t.values END AS values"
            " FROM (SELECT * FROM threads WHERE {scope} AND NOT temporary"
            "       ORDER BY coalesce(state_updated_at, created_at) DESC, thread_id DESC LIMIT %(limit)s) t"
            " LEFT JOIN LATERAL ("
            "   SELECT run_id, CASE WHEN pg_column_size(kwargs) < %(bytes)s THEN (kwargs->'input') END AS input"
            "   FROM runs WHERE runs.thread_id = t.thread_id ORDER BY position LIMIT 1) first ON true"
            " ORDER BY updated_at DESC, t.thread_id DESC",
            {"limit": limit, "bytes": _MAX_TITLE_SOURCE_BYTES},
        )

    async def activity(self, thread_id: UUID) -> dict[str, Any] | None:
        """`status` and `interrupts` of the thread, `run_id`, `run_status` and `error` of its newest run."""
        return await self.one(
            "SELECT t.status, t.interrupts, last.run_id, last.status AS run_status, last.error"
            " FROM (SELECT * FROM threads WHERE {scope} AND thread_id = %(thread_id)s) t"
            " LEFT JOIN LATERAL (SELECT run_id, status, error FROM runs WHERE runs.thread_id = t.thread_id"
            " ORDER BY position DESC LIMIT 1) last ON true",
            {"thread_id": thread_id},
        )
