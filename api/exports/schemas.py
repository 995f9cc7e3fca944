"""Requests and answers of the bulk export API (bulk export contract §1.2)."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator

from api.exports.upload_options import refused_options
from storage.export_rows import COLUMNS
from storage.exports import Export
from workflows.messages.export import ExportStatus


def _only_text(value: Any) -> Any:
    """Numbers would be taken for seconds since the epoch; the contract knows ISO 8601 only."""
    if not isinstance(value, (str, datetime)) or (isinstance(value, str) and value.strip().isdigit()):
        raise ValueError("must be an ISO 8601 date and time")
    return value


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Moment = Annotated[datetime, BeforeValidator(_only_text)]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]


class BotocoreS3Config(BaseModel):
    model_config = ConfigDict(extra="forbid")

    addressing_style: Literal["auto", "virtual", "path"] | None = None
    use_accelerate_endpoint: bool | None = None
    payload_signing_enabled: bool | None = None
    us_east_1_regional_endpoint: Literal["regional", "legacy"] | None = None


class DestinationConfig(BaseModel):
    """Where in which bucket. Without `endpoint_url`: AWS, in `region`."""

    endpoint_url: Text | None = Field(None, max_length=2048)
    prefix: Text = Field("", max_length=2048)
    bucket_name: str | None = Field(
        None, min_length=3, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
    )
    region: str | None = Field(None, min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+$")
    s3_additional_kwargs: dict[str, Any] | None = Field(
        None,
        description="Passed along with every upload, for example ServerSideEncryption and SSEKMSKeyId.",
    )
    config_kwargs_s3: BotocoreS3Config | None = None
    include_bucket_in_prefix: bool = Field(
        True, description="False where the endpoint's host carries the bucket already."
    )
    aws_role_arn: Text | None = Field(None, max_length=2048)

    @field_validator("s3_additional_kwargs")
    @classmethod
    def _known_options(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value and (refused := refused_options(value)):
            raise ValueError(refused)
        return value


class Credentials(BaseModel):
    access_key_id: Text = Field(min_length=1, max_length=255)
    secret_access_key: Text = Field(min_length=1, max_length=2048, repr=False)
    session_token: Text | None = Field(None, max_length=2048, repr=False)


class DestinationCreate(BaseModel):
    destination_type: Literal["s3"] = "s3"
    display_name: str = Field(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9\-_ ']+$")
    config: DestinationConfig
    credentials: Credentials | None = None
    aws_role_arn: Text | None = Field(None, max_length=2048)


class DestinationUpdate(BaseModel):
    """New credentials; everything else of a destination is fixed."""

    model_config = ConfigDict(extra="forbid")

    credentials: Credentials | None = None
    aws_role_arn: Text | None = Field(None, max_length=2048)


class DestinationResponse(BaseModel):
    """Of the credentials only which fields are set."""

    id: UUID
    tenant_id: UUID
    destination_type: str
    display_name: str
    config: dict[str, Any]
    credentials_keys: list[str]
    created_at: datetime
    updated_at: datetime


class ExportCreate(BaseModel):
    bulk_export_destination_id: UUID
    session_id: UUID | None = None
    all_experiments: bool = False
    start_time: Moment
    end_time: Moment | None = None
    filter: Text | None = Field(None, max_length=16_384)
    format: Literal["Parquet"] = "Parquet"
    format_version: Literal["v1", "v2_beta"] = "v1"
    compression: Literal["none", "gzip", "snappy", "zstandard"] = "zstandard"
    interval_hours: int | None = Field(None, ge=1, le=168, strict=True)
    export_fields: list[str] | None = Field(None, max_length=len(COLUMNS))

    @field_validator("start_time", "end_time")
    @classmethod
    def _utc(cls, value: datetime | None) -> datetime | None:
        try:
            return value and _in_utc(value)
        except OverflowError:
            raise ValueError("must lie between the years 1 and 9999 in UTC") from None

    @field_validator("export_fields")
    @classmethod
    def _known_fields(cls, value: list[str] | None) -> list[str] | None:
        if value is None:
            return None
        unknown = sorted(set(value) - set(COLUMNS))
        if unknown:
            raise ValueError(f"unknown fields: {', '.join(unknown)[:300]}; known are: {', '.join(COLUMNS)}")
        if not value:
            raise ValueError("must name at least one field; leave it out to export all")
        return [name for name in COLUMNS if name in set(value)]


class ExportUpdate(BaseModel):
    """Cancels; nothing else of an export can be changed."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["Cancelled", "CANCELLED"] = "Cancelled"


class Progress(BaseModel):
    """How far an export is. `rows_total` is what was counted when it was planned."""

    rows_written: int
    rows_total: int
    percent: float
    bytes_written: int
    files_written: int
    runs_total: int
    runs_finished: int
    rows_per_second: float | None
    estimated_end: datetime | None


class ExportResponse(BaseModel):
    id: UUID
    tenant_id: UUID
    bulk_export_destination_id: UUID
    session_id: UUID | None
    all_experiments: bool
    start_time: datetime
    end_time: datetime | None
    filter: str | None
    format: str
    format_version: str
    compression: str
    interval_hours: int | None
    export_fields: list[str] | None
    source_bulk_export_id: UUID | None
    status: ExportStatus
    error: str | None
    notice: str | None
    progress: Progress | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


def export_response(export: Export, now: datetime) -> ExportResponse:
    """An export as the API shows it at the moment `now`."""
    return ExportResponse(
        id=export.id,
        tenant_id=export.tenant_id,
        bulk_export_destination_id=export.destination_id,
        session_id=export.session_id,
        all_experiments=export.all_experiments,
        start_time=export.start_time.astimezone(UTC),
        end_time=export.end_time.astimezone(UTC) if export.end_time else None,
        filter=export.filter,
        format="Parquet",
        format_version=export.format_version,
        compression=export.compression,
        interval_hours=export.interval_hours,
        export_fields=export.export_fields,
        source_bulk_export_id=export.source_export_id,
        status=ExportStatus(export.status),
        error=export.error,
        notice=_notice(export),
        progress=_progress(export, now),
        created_at=export.created_at.astimezone(UTC),
        updated_at=export.updated_at.astimezone(UTC),
        finished_at=export.finished_at.astimezone(UTC) if export.finished_at else None,
    )


def _notice(export: Export) -> str | None:
    """What would otherwise surprise: a window that had not passed yet."""
    if export.end_time is None or export.end_time <= export.created_at:
        return None
    return (
        "end_time was in the future when this export was created: it holds only runs that had arrived by then."
        " Use interval_hours to export as runs arrive."
    )


def _progress(export: Export, now: datetime) -> Progress | None:
    done = export.progress
    if done is None or export.status == ExportStatus.CREATED:
        return None
    rows = done.rows_written + done.rows_in_flight
    percent = (
        100.0 if export.status == ExportStatus.COMPLETED else min(99.9, 100 * rows / max(done.rows_total, 1))
    )
    end = export.finished_at or now
    seconds = (end - export.started_at).total_seconds() if export.started_at else 0.0
    rate = rows / seconds if seconds > 0 and rows else None
    left = max(done.rows_total - rows, 0)
    running = export.status == ExportStatus.RUNNING
    return Progress(
        rows_written=rows,
        rows_total=done.rows_total,
        percent=round(percent, 1),
        bytes_written=done.bytes_written,
        files_written=done.files_written,
        runs_total=done.runs_total,
        runs_finished=done.runs_finished,
        rows_per_second=round(rate, 1) if rate else None,
        estimated_end=datetime.fromtimestamp(now.timestamp() + left / rate, UTC)
        if running and rate
        else None,
    )
