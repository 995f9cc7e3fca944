"""What a run left on its thread: the newest state that the run itself wrote."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.runs import OF_THREADS
from storage.scope import ScopedRepository

_COLUMNS = (
    "r.run_id, r.thread_id, r.assistant_id, r.status, r.error, r.created_at, r.updated_at, r.kwargs,"
    " s.state -> 'values' AS values, s.state -> 'next' AS next, s.state -> 'interrupts' AS interrupts"
)
_FROM = (
    " FROM (SELECT * FROM runs WHERE {scope}) r LEFT JOIN LATERAL (SELECT state FROM thread_states"
    " WHERE thread_id = r.thread_id AND run_id = r.run_id AND checkpoint_ns = ''"
    " ORDER BY checkpoint_id DESC LIMIT 1) s ON true"
)


class RunResults(ScopedRepository):
    """Runs of one deployment with `values`, `next` and `interrupts` of their last state; null before the first."""

    async def get(self, thread_id: UUID, run_id: UUID) -> DictRow | None:
        return await self.one(
            f"SELECT {_COLUMNS}{_FROM} WHERE r.thread_id = %(thread_id)s AND r.run_id = %(run_id)s",
            {"thread_id": thread_id, "run_id": run_id},
        )

    async def page(
        self,
        assistant_id: UUID,
        thread_id: UUID | None,
        statuses: list[str] | None,
        thread_metadata: dict[str, Any],
        limit: int,
        offset: int,
    ) -> list[DictRow]:
        """Runs of an assistant that were asked for as tasks, newest first; `total` is on every row."""
        found = _FROM.replace("{scope}", f"{{scope}}{OF_THREADS if thread_metadata else ''}")
        return await self.all(
            f"SELECT {_COLUMNS}, count(*) OVER () AS total{found} WHERE r.assistant_id = %(assistant_id)s"
            " AND r.metadata ->> 'a2a' = 'true' AND (%(thread_id)s::uuid IS NULL OR r.thread_id = %(thread_id)s)"
            " AND (%(statuses)s::text[] IS NULL OR r.status = ANY(%(statuses)s))"
            " ORDER BY r.created_at DESC, r.run_id DESC LIMIT %(limit)s OFFSET %(offset)s",
            {
                "assistant_id": assistant_id,
                "thread_id": thread_id,
                "statuses": statuses,
                "thread_metadata": Jsonb(thread_metadata),
                "limit": limit,
                "offset": offset,
            },
        )
