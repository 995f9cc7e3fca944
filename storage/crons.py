"""Crons: runs created on a schedule (docs/architecture/crons.md)."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Json, Jsonb

from storage.scope import ScopedRepository

COLUMNS = (
    "cron_id, assistant_id, thread_id, user_id, end_time, schedule, timezone, payload, next_run_date, metadata,"
    " on_run_completed, enabled, created_at, updated_at"
)
SORT_COLUMNS = (
    "cron_id",
    "assistant_id",
    "thread_id",
    "next_run_date",
    "end_time",
    "created_at",
    "updated_at",
)
_CHANGEABLE = frozenset(
    {"schedule", "timezone", "end_time", "enabled", "on_run_completed", "payload", "metadata"}
)
# An activity is repeated for an hour at most; older firings are past being repeated.
_FORGET_FIRINGS_AFTER = "1 day"


class Crons(ScopedRepository):
    """Crons of one deployment. Rows are dicts of `COLUMNS`."""

    async def create(self, fields: dict[str, Any]) -> DictRow:
        """`fields`: every column that a client gives, and cron_id and user_id."""
        cursor = await self._connection.execute(
            "INSERT INTO crons (cron_id, deployment_id, tenant_id, assistant_id, thread_id, user_id, schedule,"
            " timezone, end_time, enabled, on_run_completed, payload, metadata) VALUES (%(cron_id)s,"
            " %(deployment_id)s, %(tenant_id)s, %(assistant_id)s, %(thread_id)s, %(user_id)s, %(schedule)s,"
            " %(timezone)s, %(end_time)s, %(enabled)s, %(on_run_completed)s, %(payload)s, %(metadata)s)"
            f" RETURNING {COLUMNS}".encode(),
            {
                **_as_json(fields),
                "deployment_id": self.scope.deployment_id,
                "tenant_id": self.scope.tenant_id,
            },
        )
        row = await cursor.fetchone()
        assert row is not None
        return row

    async def get(self, cron_id: UUID) -> DictRow | None:
        return await self.one(
            f"SELECT {COLUMNS} FROM crons WHERE {{scope}} AND cron_id = %(cron_id)s", {"cron_id": cron_id}
        )

    async def lock(self, cron_id: UUID) -> DictRow | None:
        """The cron, held until the transaction ends."""
        return await self.one(
            f"SELECT {COLUMNS} FROM crons WHERE {{scope}} AND cron_id = %(cron_id)s FOR UPDATE",
            {"cron_id": cron_id},
        )

    async def update(self, cron_id: UUID, changes: dict[str, Any]) -> DictRow | None:
        """`changes`: columns among schedule, timezone, end_time, enabled, on_run_completed, payload, metadata."""
        assert changes.keys() <= _CHANGEABLE
        assignments = "".join(f", {column} = %({column})s" for column in changes)
        return await self.one(
            f"UPDATE crons SET updated_at = now(){assignments} WHERE {{scope}} AND cron_id = %(cron_id)s"
            f" RETURNING {COLUMNS}",
            {"cron_id": cron_id, **_as_json(changes)},
        )

    async def set_next_run_date(self, cron_id: UUID, next_run_date: datetime | None) -> None:
        await self.execute(
            "UPDATE crons SET next_run_date = %(next)s WHERE {scope} AND cron_id = %(cron_id)s",
            {"cron_id": cron_id, "next": next_run_date},
        )

    async def delete(self, cron_id: UUID) -> bool:
        cursor = await self.execute(
            "DELETE FROM crons WHERE {scope} AND cron_id = %(cron_id)s", {"cron_id": cron_id}
        )
        return cursor.rowcount == 1

    async def search(
        self, filters: dict[str, Any], sort_by: str, descending: bool, limit: int, offset: int
    ) -> list[DictRow]:
        """By assistant_id, thread_id, enabled and metadata (containment)."""
        assert sort_by in SORT_COLUMNS
        order = f"{sort_by} {'DESC NULLS LAST' if descending else 'ASC NULLS LAST'}, cron_id"
        return await self.all(
            f"SELECT {COLUMNS} FROM crons WHERE {{scope}}{_FILTER}"
            f" ORDER BY {order} LIMIT %(limit)s OFFSET %(offset)s",
            {**_filters(filters), "limit": limit, "offset": offset},
        )

    async def count(self, filters: dict[str, Any]) -> int:
        row = await self.one(f"SELECT count(*) FROM crons WHERE {{scope}}{_FILTER}", _filters(filters))
        return int(row["count"]) if row else 0

    async def begin_firing(self, cron_id: UUID, scheduled_at: datetime) -> bool:
        """Claim a firing in this transaction; False if it has been committed before."""
        await self._connection.execute(
            "DELETE FROM cron_firings WHERE cron_id = %s"
            f" AND fired_at < now() - interval '{_FORGET_FIRINGS_AFTER}'".encode(),
            (cron_id,),
        )
        cursor = await self.execute(
            "INSERT INTO cron_firings (cron_id, scheduled_at)"
            " SELECT cron_id, %(scheduled_at)s FROM crons WHERE {scope} AND cron_id = %(cron_id)s"
            " ON CONFLICT DO NOTHING",
            {"cron_id": cron_id, "scheduled_at": scheduled_at},
        )
        return cursor.rowcount == 1

    async def end_firing(
        self, cron_id: UUID, scheduled_at: datetime, thread_id: UUID | None, run_id: UUID | None
    ) -> None:
        """Note which run a claimed firing created; none if it was skipped."""
        await self._connection.execute(
            "UPDATE cron_firings SET thread_id = %s, run_id = %s WHERE cron_id = %s AND scheduled_at = %s",
            (thread_id, run_id, cron_id, scheduled_at),
        )

    async def firing(self, cron_id: UUID, scheduled_at: datetime) -> DictRow | None:
        """`thread_id` and `run_id` of a firing that was committed."""
        return await self.one(
            "SELECT f.thread_id, f.run_id FROM cron_firings f JOIN crons USING (cron_id) WHERE cron_id IN"
            " (SELECT cron_id FROM crons WHERE {scope} AND cron_id = %(cron_id)s)"
            " AND f.scheduled_at = %(scheduled_at)s",
            {"cron_id": cron_id, "scheduled_at": scheduled_at},
        )


_FILTER = """
 AND metadata @> %(metadata)s
 AND (%(assistant_id)s::uuid IS NULL OR assistant_id = %(assistant_id)s)
 AND (%(thread_id)s::uuid IS NULL OR thread_id = %(thread_id)s)
 AND (%(enabled)s::boolean IS NULL OR enabled = %(enabled)s)
"""


def _filters(given: dict[str, Any]) -> dict[str, Any]:
    names = ("assistant_id", "thread_id", "enabled")
    return {
        "metadata": Jsonb(given.get("metadata") or {}),
        **{name: given.get(name) for name in names},
    }


def _as_json(fields: dict[str, Any]) -> dict[str, Any]:
    wrap = {"payload": Json, "metadata": Jsonb}
    return {name: wrap[name](value) if name in wrap else value for name, value in fields.items()}
