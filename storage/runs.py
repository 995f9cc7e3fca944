"""Runs: invocations of an assistant on a thread."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json, Jsonb

from storage.scope import ScopedRepository

COLUMNS = (
    "run_id, thread_id, assistant_id, graph_id, created_at, updated_at, status, metadata, kwargs,"
    " multitask_strategy, error, lane,"
    # The project that its trace is written to: every worker of a deployment writes to the one of its name.
    " (SELECT d.name FROM deployments d WHERE d.id = runs.deployment_id AND d.tenant_id = runs.tenant_id)"
    " AS langsmith_session_name"
)
UNFINISHED = ("pending", "running")
_VISIBLE = (
    "(status IN ('pending', 'running') OR NOT EXISTS"
    " (SELECT FROM threads t WHERE t.thread_id = runs.thread_id AND t.temporary))"
)
# A condition on runs: that metadata of their threads contain `thread_metadata`.
OF_THREADS = " AND thread_id IN (SELECT thread_id FROM threads WHERE metadata @> %(thread_metadata)s)"


class Runs(ScopedRepository):
    """Runs of one deployment. Rows are dicts of `COLUMNS`."""

    async def create(self, fields: dict[str, Any]) -> DictRow:
        """A pending run; `fields` names every column of the statement below."""
        cursor = await self._connection.execute(
            "INSERT INTO runs (run_id, thread_id, deployment_id, tenant_id, assistant_id, graph_id, kwargs, metadata,"
            " multitask_strategy, after_seconds, lane, inject)"
            " VALUES (%(run_id)s, %(thread_id)s, %(deployment_id)s, %(tenant_id)s,"
            " %(assistant_id)s, %(graph_id)s, %(kwargs)s, %(metadata)s, %(multitask_strategy)s, %(after_seconds)s,"
            " %(lane)s, %(inject)s)"
            f" RETURNING {COLUMNS}",
            {
                **fields,
                "kwargs": Json(fields["kwargs"]),
                "metadata": Jsonb(fields["metadata"]),
                "deployment_id": self.scope.deployment_id,
                "tenant_id": self.scope.tenant_id,
            },
        )
        row = await cursor.fetchone()
        assert row is not None
        return row

    async def get(self, thread_id: UUID, run_id: UUID) -> DictRow | None:
        """A run that clients may see: a stateless one is gone once it has ended."""
        return await self.one(
            f"SELECT {COLUMNS} FROM runs WHERE {{scope}} AND thread_id = %(thread_id)s AND run_id = %(run_id)s"
            f" AND {_VISIBLE}",
            {"thread_id": thread_id, "run_id": run_id},
        )

    async def to_watch(self, run_id: UUID, thread_id: UUID | None = None) -> DictRow | None:
        """A run whose events may be read: a stateless one also for the minute that its thread is kept after it."""
        return await self.one(
            f"SELECT {COLUMNS} FROM runs WHERE {{scope}} AND run_id = %(run_id)s"
            " AND (%(thread_id)s::uuid IS NULL OR thread_id = %(thread_id)s)",
            {"thread_id": thread_id, "run_id": run_id},
        )

    async def page(self, thread_id: UUID, status: str | None, limit: int, offset: int) -> list[DictRow]:
        """Newest first."""
        return await self.all(
            f"SELECT {COLUMNS} FROM runs WHERE {{scope}} AND thread_id = %(thread_id)s AND {_VISIBLE}"
            " AND (%(status)s::text IS NULL OR status = %(status)s)"
            " ORDER BY position DESC LIMIT %(limit)s OFFSET %(offset)s",
            {"thread_id": thread_id, "status": status, "limit": limit, "offset": offset},
        )

    async def unfinished(
        self,
        statuses: list[str],
        thread_id: UUID | None,
        run_ids: list[UUID] | None,
        thread_metadata: dict[str, Any] | None = None,
    ) -> list[DictRow]:
        """Runs that a cancel may reach, newest first, each with its lane."""
        return await self.all(
            "SELECT run_id, thread_id, lane FROM runs WHERE {scope} AND status = ANY(%(statuses)s)"
            " AND (%(thread_id)s::uuid IS NULL OR thread_id = %(thread_id)s)"
            " AND (%(run_ids)s::uuid[] IS NULL OR run_id = ANY(%(run_ids)s))"
            f"{OF_THREADS if thread_metadata else ''} ORDER BY position DESC",
            {
                "statuses": statuses,
                "thread_id": thread_id,
                "run_ids": run_ids,
                "thread_metadata": Jsonb(thread_metadata or {}),
            },
        )

    async def outcome(self, thread_id: UUID, run_id: UUID) -> DictRow | None:
        """Status and error of a run with its thread's values and interrupts: what join and wait answer from."""
        return await self.one(
            "SELECT r.status, r.error, t.values, t.interrupts, t.status AS thread_status FROM runs r"
            " JOIN threads t USING (thread_id) WHERE r.run_id = %(run_id)s AND r.thread_id = %(thread_id)s"
            " AND r.run_id IN (SELECT run_id FROM runs WHERE {scope} AND run_id = %(run_id)s)",
            {"thread_id": thread_id, "run_id": run_id},
        )

    async def has_unfinished(self, thread_id: UUID) -> bool:
        row = await self.one(
            "SELECT EXISTS (SELECT FROM runs WHERE {scope} AND thread_id = %(thread_id)s"
            " AND status IN ('pending', 'running')) AS found",
            {"thread_id": thread_id},
        )
        return bool(row and row["found"])
