"""Bulk exports: one-time exports, schedules, and the exports that schedules spawn."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.scope import TenantRepository


@dataclass(frozen=True, kw_only=True)
class NewExport:
    """What a client or a schedule asks for. `end_time` is None exactly for schedules."""

    id: UUID
    destination_id: UUID
    session_id: UUID | None
    all_experiments: bool
    start_time: datetime
    end_time: datetime | None
    filter: str | None
    format_version: str
    compression: str
    interval_hours: int | None
    export_fields: list[str] | None
    source_export_id: UUID | None = None


@dataclass(frozen=True)
class ExportProgress:
    """Sums over the runs of an export."""

    runs_total: int
    runs_finished: int
    rows_total: int
    rows_written: int
    rows_in_flight: int
    bytes_written: int
    files_written: int


@dataclass(frozen=True, kw_only=True)
class Export(NewExport):
    """A stored export. `progress` is None for schedules."""

    tenant_id: UUID
    status: str
    error: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    progress: ExportProgress | None


_COLUMNS = ", ".join(field.name for field in fields(Export) if field.name != "progress")
_NEW = [field.name for field in fields(NewExport)]
_SELECT = f"""
SELECT e.*, p.* FROM (SELECT {_COLUMNS} FROM exports WHERE {{scope}}{{narrowed}}) e
CROSS JOIN LATERAL (
    SELECT count(*) AS runs_total, count(*) FILTER (WHERE status NOT IN ('CREATED', 'RUNNING')) AS runs_finished,
           coalesce(sum(rows_planned), 0)::bigint AS rows_total,
           coalesce(sum(rows_written), 0)::bigint AS rows_written,
           coalesce(sum(rows_in_flight), 0)::bigint AS rows_in_flight,
           coalesce(sum(bytes_written), 0)::bigint AS bytes_written,
           coalesce(sum(jsonb_array_length(files)), 0)::bigint AS files_written
    FROM export_runs r WHERE r.export_id = e.id) p
"""


class Exports(TenantRepository):
    """Exports of one tenant."""

    async def create(self, export: NewExport) -> bool:
        """Store it as CREATED; False if it exists already, or its schedule has one for the same window."""
        values = {name: getattr(export, name) for name in _NEW}
        names, holders = ", ".join(_NEW), ", ".join(f"%({name})s" for name in _NEW)
        cursor = await self._connection.execute(
            f"INSERT INTO exports (tenant_id, {names}) VALUES (%(tenant_id)s, {holders})"
            " ON CONFLICT DO NOTHING".encode(),
            {**values, "tenant_id": self.tenant_id},
        )
        return cursor.rowcount == 1

    async def get(self, export_id: UUID) -> Export | None:
        row = await self.one(_SELECT.replace("{narrowed}", " AND id = %(id)s"), {"id": export_id})
        return _export(row) if row else None

    async def page(self, limit: int | None, offset: int) -> list[Export]:
        """Newest first."""
        narrowed = " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s"
        rows = await self.all(
            _SELECT.replace("{narrowed}", narrowed) + " ORDER BY e.created_at DESC, e.id DESC",
            {"limit": limit, "offset": offset},
        )
        return [_export(row) for row in rows]

    async def lock_status(self, export_id: UUID) -> str | None:
        """Its status, which nobody else changes until the transaction ends; None if there is no such export."""
        row = await self.one(
            "SELECT status FROM exports WHERE {scope} AND id = %(id)s FOR UPDATE", {"id": export_id}
        )
        return str(row["status"]) if row else None

    async def start(self, export_id: UUID) -> None:
        """CREATED becomes RUNNING; any other status stays."""
        await self.execute(
            "UPDATE exports SET status = 'RUNNING', started_at = now(), updated_at = now()"
            " WHERE {scope} AND id = %(id)s AND status = 'CREATED'",
            {"id": export_id},
        )

    async def finish(self, export_id: UUID, status: str, error: str | None) -> bool:
        """Give an unfinished export its final status; False if it had one."""
        cursor = await self.execute(
            "UPDATE exports SET status = %(status)s, error = %(error)s, finished_at = now(), updated_at = now()"
            " WHERE {scope} AND id = %(id)s AND status IN ('CREATED', 'RUNNING')",
            {"id": export_id, "status": status, "error": error},
        )
        return cursor.rowcount == 1

    async def spawned_start_times(self, schedule_id: UUID) -> list[datetime]:
        """Starts of the windows for which a schedule has an export."""
        rows = await self.all(
            "SELECT start_time FROM exports WHERE {scope} AND source_export_id = %(id)s", {"id": schedule_id}
        )
        return [row["start_time"] for row in rows]

    async def hold_limits(self) -> None:
        """Until the transaction ends nobody else creates exports for this tenant, so that counts stay true."""
        await self._connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('exports:' || %s::text, 0))", (self.tenant_id,)
        )

    async def count_created_within_hour(self) -> int:
        """Creations within the last 60 minutes, those by schedules included."""
        return await self._count("created_at > now() - interval '60 minutes'")

    async def count_active_schedules(self) -> int:
        return await self._count("interval_hours IS NOT NULL AND status IN ('CREATED', 'RUNNING')")

    async def _count(self, condition: str) -> int:
        row = await self.one(f"SELECT count(*) AS found FROM exports WHERE {{scope}} AND {condition}")
        return int(row["found"]) if row else 0


def _export(row: DictRow) -> Export:
    values: dict[str, Any] = dict(row)
    progress = ExportProgress(**{field.name: int(values.pop(field.name)) for field in fields(ExportProgress)})
    return Export(**values, progress=None if values["interval_hours"] else progress)
