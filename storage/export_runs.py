"""Runs of a bulk export: one project and UTC day each, with what they have written so far."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.ids import new_id
from storage.scope import TenantRepository

_MAX_KEPT_ERRORS = 20


class SupersededError(Exception):
    """A newer attempt of the export run has begun, or the run has ended: this one may write nothing more."""


@dataclass(frozen=True)
class PlannedRun:
    """A project and UTC day; `rows` as counted when the export was planned."""

    session_id: UUID
    start_time: datetime
    end_time: datetime
    rows: int


@dataclass(frozen=True)
class Cursor:
    """Place of a row in the order of an export run: by start time, then id."""

    time: datetime
    id: UUID


@dataclass(frozen=True)
class ExportedFile:
    """A finished object. `sha256` is of its bytes; times are those of its first and last row, ISO 8601."""

    key: str
    rows: int
    bytes: int
    sha256: str
    min_start_time: str
    max_start_time: str


@dataclass(frozen=True)
class PendingUpload:
    """A multipart upload that may be open in the bucket. `rows` and `cursor` are known once it is about to end."""

    key: str
    upload_id: str | None
    rows: int = 0
    cursor: str | None = None


@dataclass(frozen=True)
class ExportRun:
    """A stored export run."""

    id: UUID
    tenant_id: UUID
    export_id: UUID
    session_id: UUID
    start_time: datetime
    end_time: datetime
    status: str
    attempt: int
    errors: dict[str, str]
    credentials_version: int | None
    rows_planned: int
    rows_written: int
    rows_in_flight: int
    bytes_written: int
    cursor: Cursor | None
    files: list[ExportedFile]
    pending_upload: PendingUpload | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


_COLUMNS = (
    "id, tenant_id, export_id, session_id, start_time, end_time, status, attempt, errors, credentials_version,"
    " rows_planned, rows_written, rows_in_flight, bytes_written, cursor_time, cursor_id, files, pending_upload,"
    " created_at, updated_at, started_at, finished_at"
)
_ORDER = "session_id, start_time"


class ExportRuns(TenantRepository):
    """Export runs of one tenant."""

    async def plan(self, export_id: UUID, runs: list[PlannedRun]) -> None:
        """Store the runs of an export; those without rows are complete at once. Repeating it changes nothing."""
        await self._connection.execute(
            "INSERT INTO export_runs (id, tenant_id, export_id, session_id, start_time, end_time, rows_planned,"
            " status, started_at, finished_at)"
            " SELECT id, %(tenant_id)s, %(export_id)s, session_id, start_time, end_time, rows,"
            " CASE WHEN rows = 0 THEN 'COMPLETED' ELSE 'CREATED' END,"
            " CASE WHEN rows = 0 THEN now() END, CASE WHEN rows = 0 THEN now() END"
            " FROM unnest(%(ids)s::uuid[], %(sessions)s::uuid[], %(starts)s::timestamptz[], %(ends)s::timestamptz[],"
            " %(rows)s::bigint[]) AS given(id, session_id, start_time, end_time, rows)"
            " ON CONFLICT (export_id, session_id, start_time) DO NOTHING",
            {
                "tenant_id": self.tenant_id,
                "export_id": export_id,
                "ids": [new_id() for _ in runs],
                "sessions": [run.session_id for run in runs],
                "starts": [run.start_time for run in runs],
                "ends": [run.end_time for run in runs],
                "rows": [run.rows for run in runs],
            },
        )

    async def unfinished(self, export_id: UUID, limit: int) -> list[ExportRun]:
        """In order of project and day."""
        rows = await self.all(
            f"SELECT {_COLUMNS} FROM export_runs WHERE {{scope}} AND export_id = %(export_id)s"
            f" AND status IN ('CREATED', 'RUNNING') ORDER BY {_ORDER} LIMIT %(limit)s",
            {"export_id": export_id, "limit": limit},
        )
        return [_run(row) for row in rows]

    async def count_unfinished(self, export_id: UUID) -> tuple[int, int]:
        """Unfinished runs of an export, and their planned rows."""
        row = await self.one(
            "SELECT count(*) AS runs, coalesce(sum(rows_planned), 0)::bigint AS rows FROM export_runs"
            " WHERE {scope} AND export_id = %(export_id)s AND status IN ('CREATED', 'RUNNING')",
            {"export_id": export_id},
        )
        return (int(row["runs"]), int(row["rows"])) if row else (0, 0)

    async def of_export(self, export_id: UUID, limit: int | None = None, offset: int = 0) -> list[ExportRun]:
        """In order of project and time, so that a project's windows follow each other."""
        rows = await self.all(
            f"SELECT {_COLUMNS} FROM export_runs WHERE {{scope}} AND export_id = %(export_id)s"
            f" ORDER BY {_ORDER} LIMIT %(limit)s OFFSET %(offset)s",
            {"export_id": export_id, "limit": limit, "offset": offset},
        )
        return [_run(row) for row in rows]

    async def of_schedule(
        self, source_export_id: UUID, limit: int | None = None, offset: int = 0
    ) -> list[ExportRun]:
        """Runs of every export that a schedule has spawned, in order of time."""
        rows = await self.all(
            f"SELECT {_COLUMNS} FROM export_runs WHERE {{scope}} AND export_id IN"
            " (SELECT id FROM exports WHERE source_export_id = %(source)s)"
            " ORDER BY start_time, session_id LIMIT %(limit)s OFFSET %(offset)s",
            {"source": source_export_id, "limit": limit, "offset": offset},
        )
        return [_run(row) for row in rows]

    async def get(self, export_id: UUID, run_id: UUID) -> ExportRun | None:
        row = await self.one(
            f"SELECT {_COLUMNS} FROM export_runs WHERE {{scope}} AND export_id = %(export_id)s AND id = %(id)s",
            {"export_id": export_id, "id": run_id},
        )
        return _run(row) if row else None

    async def begin_attempt(
        self, export_id: UUID, run_id: UUID, credentials_version: int
    ) -> ExportRun | None:
        """Start the next attempt, which fences off all earlier ones; None if the run has ended or is gone."""
        row = await self.one(
            "UPDATE export_runs SET status = 'RUNNING', attempt = attempt + 1, rows_in_flight = 0,"
            " credentials_version = coalesce(credentials_version, %(version)s),"
            " started_at = coalesce(started_at, now()), updated_at = now()"
            " WHERE {scope} AND export_id = %(export_id)s AND id = %(id)s AND status IN ('CREATED', 'RUNNING')"
            f" RETURNING {_COLUMNS}",
            {"export_id": export_id, "id": run_id, "version": credentials_version},
        )
        return _run(row) if row else None

    async def note_upload(self, run: ExportRun, upload: PendingUpload | None) -> None:
        """Remember the upload that is about to become visible.

        Raises:
            SupersededError: this attempt is not the newest.
        """
        await self._fenced(run, "pending_upload = %(upload)s", {"upload": _as_json(upload)})

    async def note_progress(self, run: ExportRun, rows_in_flight: int) -> None:
        """Rows read beyond the finished files.

        Raises:
            SupersededError: this attempt is not the newest.
        """
        await self._fenced(run, "rows_in_flight = %(rows)s", {"rows": rows_in_flight})

    async def add_file(self, run: ExportRun, file: ExportedFile, cursor: Cursor) -> None:
        """Record a finished file and where the next one begins.

        Raises:
            SupersededError: this attempt is not the newest.
        """
        await self._fenced(
            run,
            "files = files || %(file)s, rows_written = rows_written + %(rows)s,"
            " bytes_written = bytes_written + %(bytes)s, cursor_time = %(time)s, cursor_id = %(cursor_id)s,"
            " pending_upload = NULL, rows_in_flight = greatest(rows_in_flight - %(rows)s, 0)",
            {
                "file": Jsonb([asdict(file)]),
                "rows": file.rows,
                "bytes": file.bytes,
                "time": cursor.time,
                "cursor_id": cursor.id,
            },
        )

    async def complete(self, run: ExportRun) -> None:
        """Every row is in a finished file.

        Raises:
            SupersededError: this attempt is not the newest.
        """
        await self._fenced(
            run,
            "status = 'COMPLETED', finished_at = now(), rows_in_flight = 0, pending_upload = NULL",
            {},
        )

    async def fail(self, run: ExportRun, error: str) -> None:
        """End the run with a reason.

        Raises:
            SupersededError: this attempt is not the newest.
        """
        await self._fenced(
            run,
            "status = 'FAILED', finished_at = now(), rows_in_flight = 0, errors = errors || %(errors)s",
            {"errors": Jsonb({f"retry_{run.attempt - 1}": error})},
        )

    async def note_error(self, run: ExportRun, error: str) -> None:
        """Remember why an attempt failed; of many the newest are kept."""
        await self._fenced(
            run,
            "errors = (errors || %(errors)s) - %(oldest)s",
            {
                "errors": Jsonb({f"retry_{run.attempt - 1}": error}),
                "oldest": f"retry_{run.attempt - 1 - _MAX_KEPT_ERRORS}",
            },
        )

    async def end_unfinished(self, export_id: UUID, status: str) -> list[ExportRun]:
        """Give every unfinished run of an export `status`; the runs, with uploads that may be open."""
        rows = await self.all(
            "UPDATE export_runs SET status = %(status)s, attempt = attempt + 1, rows_in_flight = 0,"
            " finished_at = now(), updated_at = now()"
            " WHERE {scope} AND export_id = %(export_id)s AND status IN ('CREATED', 'RUNNING')"
            f" RETURNING {_COLUMNS}",
            {"export_id": export_id, "status": status},
        )
        return [_run(row) for row in rows]

    async def with_pending_uploads(self, export_id: UUID) -> list[ExportRun]:
        """Ended runs whose last upload may still be open in the bucket."""
        rows = await self.all(
            f"SELECT {_COLUMNS} FROM export_runs WHERE {{scope}} AND export_id = %(export_id)s"
            " AND pending_upload IS NOT NULL AND status NOT IN ('CREATED', 'RUNNING')",
            {"export_id": export_id},
        )
        return [_run(row) for row in rows]

    async def clear_pending_upload(self, export_id: UUID, run_id: UUID) -> None:
        await self.execute(
            "UPDATE export_runs SET pending_upload = NULL WHERE {scope} AND export_id = %(export_id)s"
            " AND id = %(id)s",
            {"export_id": export_id, "id": run_id},
        )

    async def _fenced(self, run: ExportRun, assignments: str, parameters: dict[str, Any]) -> None:
        cursor = await self.execute(
            f"UPDATE export_runs SET {assignments}, updated_at = now() WHERE {{scope}} AND id = %(id)s"
            " AND attempt = %(attempt)s AND status = 'RUNNING'",
            {**parameters, "id": run.id, "attempt": run.attempt},
        )
        if cursor.rowcount != 1:
            raise SupersededError(f"Attempt {run.attempt} of export run {run.id} was superseded.")


def _as_json(upload: PendingUpload | None) -> Jsonb | None:
    return Jsonb(asdict(upload)) if upload else None


def _run(row: DictRow) -> ExportRun:
    values: dict[str, Any] = dict(row)
    time, row_id = values.pop("cursor_time"), values.pop("cursor_id")
    pending = values["pending_upload"]
    return ExportRun(
        **{
            **values,
            "files": [ExportedFile(**file) for file in values["files"]],
            "pending_upload": PendingUpload(**pending) if pending else None,
        },
        cursor=Cursor(time, row_id) if time else None,
    )
