"""Export runs as the API shows them (bulk export contract §1.2)."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from storage.destinations import Destination
from storage.export_layout import run_folder
from storage.export_runs import ExportRun
from storage.s3_destination import S3Destination
from workflows.messages.export import ExportStatus


class RunProgress(BaseModel):
    rows_written: int
    exported_files: list[str]
    export_path: str
    latest_cursor: str | None
    pending_upload: dict[str, Any] | None


class RunMetadata(BaseModel):
    prefix: str
    start_time: datetime
    end_time: datetime
    execution_backend: str | None
    result: RunProgress | None


class ExportRunResponse(BaseModel):
    """One project and UTC day of an export. `errors` holds why attempts failed, by `retry_<n>`."""

    id: UUID
    bulk_export_id: UUID
    session_id: UUID
    status: ExportStatus
    retry_number: int
    errors: dict[str, str] | None
    start_time: datetime
    end_time: datetime
    rows_planned: int
    bytes_written: int
    metadata: RunMetadata
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


def run_response(run: ExportRun, destination: Destination) -> ExportRunResponse:
    """An export run whose files lie in `destination`."""
    start, end = run.start_time.astimezone(UTC), run.end_time.astimezone(UTC)
    return ExportRunResponse(
        id=run.id,
        bulk_export_id=run.export_id,
        session_id=run.session_id,
        status=ExportStatus(run.status),
        retry_number=max(run.attempt - 1, 0),
        errors=run.errors or None,
        start_time=start,
        end_time=end,
        rows_planned=run.rows_planned,
        bytes_written=run.bytes_written,
        metadata=RunMetadata(
            prefix=str(destination.config.get("prefix") or ""),
            start_time=start,
            end_time=end,
            execution_backend=None,
            result=_result(run, S3Destination(destination.config, {})),
        ),
        created_at=run.created_at.astimezone(UTC),
        updated_at=run.updated_at.astimezone(UTC),
        finished_at=run.finished_at.astimezone(UTC) if run.finished_at else None,
    )


def _result(run: ExportRun, place: S3Destination) -> RunProgress | None:
    """None before the run has begun."""
    if run.status == ExportStatus.CREATED:
        return None
    folder = run_folder(run.export_id, run.tenant_id, run.session_id, run.start_time)
    pending = run.pending_upload
    return RunProgress(
        rows_written=run.rows_written,
        exported_files=[file.key for file in run.files],
        export_path=place.display(place.key(folder)),
        latest_cursor=f"{run.cursor.time.astimezone(UTC).isoformat()} {run.cursor.id}"
        if run.cursor
        else None,
        pending_upload={
            "target_cursor": pending.cursor,
            "file_path": place.display(pending.key),
            "rows_count": pending.rows,
        }
        if pending
        else None,
    )
