"""Writes one project and UTC day of an export: PostgreSQL to Parquet to the bucket (docs/architecture/exports.md)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
import pyarrow as pa
import structlog
from psycopg_pool import PoolTimeout
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.export_files import write_files
from activities.export_memory import give_back_memory
from activities.export_parquet import FileFormat, encode
from activities.export_pipeline import overlapped
from storage.database import Database
from storage.destinations import Destinations
from storage.export_filter import compile_condition
from storage.export_layout import run_folder
from storage.export_rows import COLUMNS, Selection, find_projects, open_batches, query_text
from storage.export_runs import Cursor, ExportedFile, ExportRun, ExportRuns, PendingUpload, SupersededError
from storage.exports import Export, Exports
from storage.s3_destination import S3Destination
from storage.s3_errors import S3Error
from storage.s3_upload import Bucket
from storage.secrets import SecretBox
from workflows.messages.export import RUN_EXPORT, ExportStatus, RunExport, RunExportResult

log = structlog.get_logger()

_HEARTBEAT_SECONDS = 2.0
# Failures whose cause is not known to pass by itself (a row that cannot be written, a bug): then it is enough.
_MAX_ATTEMPTS = 20


@dataclass(frozen=True)
class PipelineSizes:
    """Bounds of what an export run holds in memory, and of the files it writes."""

    batch_bytes: int = 2 * 1024 * 1024
    row_group_bytes: int = 16 * 1024 * 1024
    part_bytes: int = 6 * 1024 * 1024
    file_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True)
class RunHeartbeat:
    """What the Temporal UI shows of a run in flight."""

    rows: int
    rows_planned: int
    bytes: int
    files: int


class ProjectDeletedError(Exception):
    """The project was deleted while it was exported."""


class ExportRunActivities:
    """Export runs, on the task queue of exports."""

    def __init__(
        self,
        database: Database,
        secrets: SecretBox,
        *,
        allow_private_endpoints: bool,
        sizes: PipelineSizes | None = None,
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._allow_private_endpoints = allow_private_endpoints
        self._sizes = sizes or PipelineSizes()
        self._in_flight = 0

    @activity.defn(name=RUN_EXPORT)
    async def run(self, request: RunExport) -> RunExportResult:
        self._in_flight += 1
        try:
            return await self._run(request)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                asyncio.get_running_loop().run_in_executor(None, give_back_memory)

    async def _run(self, request: RunExport) -> RunExportResult:
        tenant_id, export_id = UUID(request.export.tenant_id), UUID(request.export.export_id)
        opened = await self._begin(tenant_id, export_id, UUID(request.run_id))
        if isinstance(opened, RunExportResult):
            return opened
        export, run, destination = opened
        ledger = _RunLedger(self._database, run)
        try:
            async with ledger.reported(), destination.client() as client:
                await self._write(export, run, Bucket(destination, client), ledger)
            await self._require_project(run)
            await ledger.complete()
        except SupersededError as error:
            raise ApplicationError(str(error), type="SupersededError", non_retryable=True) from error
        except ProjectDeletedError as error:
            return await ledger.fail(str(error))
        except S3Error as error:
            if error.failure.lasting:
                return await ledger.fail(error.failure.reason)
            raise await ledger.retry_later("ObjectStoreUnavailableError", error.failure.reason) from error
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise await ledger.retry_later(
                "DatabaseUnavailableError", "The database cannot be reached."
            ) from error
        except Exception as error:
            log.exception("export_run_failed", export_id=str(export_id), run_id=request.run_id)
            reason = f"{type(error).__name__}: {str(error)[:500]}"
            if run.attempt >= _MAX_ATTEMPTS:
                return await ledger.fail(reason)
            raise await ledger.retry_later(type(error).__name__, reason) from error
        return ledger.result(ExportStatus.COMPLETED)

    async def _begin(
        self, tenant_id: UUID, export_id: UUID, run_id: UUID
    ) -> RunExportResult | tuple[Export, ExportRun, S3Destination]:
        """What the run needs, or its result if it has ended before."""
        async with self._database.transaction() as connection:
            export = await Exports(connection, tenant_id).get(export_id)
            runs = ExportRuns(connection, tenant_id)
            found = await runs.get(export_id, run_id)
            if export is None or found is None:
                return RunExportResult(ExportStatus.CANCELLED)
            destinations = Destinations(connection, tenant_id)
            destination = await destinations.get(export.destination_id, hold=True)
            stored = await destinations.credentials(export.destination_id, found.credentials_version)
            assert destination is not None and stored is not None
            run = await runs.begin_attempt(export_id, run_id, stored[0])
            if run is None:
                return RunExportResult(
                    found.status, found.rows_written, found.bytes_written, len(found.files)
                )
        return (
            export,
            run,
            S3Destination(
                destination.config, self._secrets.decrypt(stored[1]), self._allow_private_endpoints
            ),
        )

    async def _write(self, export: Export, run: ExportRun, bucket: Bucket, ledger: "_RunLedger") -> None:
        folder = bucket.destination.key(
            run_folder(run.export_id, run.tenant_id, run.session_id, run.start_time)
        )
        left_over = run.pending_upload
        if left_over and left_over.upload_id:
            await bucket.abort_upload(left_over.key, left_over.upload_id)
        if run.attempt > 1:
            await bucket.abort_uploads_under(f"{folder}/")
        await self._require_project(run)
        fields = export.export_fields or list(COLUMNS)
        selection = Selection(
            run.tenant_id,
            run.session_id,
            run.start_time,
            run.end_time,
            compile_condition(export.filter),
            run.cursor,
        )
        async with self._database.connection() as connection:
            query = query_text(connection, selection, fields)

        @contextmanager
        def batches() -> Iterator[Iterable[pa.RecordBatch]]:
            with open_batches(self._database.url, query, self._sizes.batch_bytes) as reader:
                yield ledger.counted(reader)

        file_format = FileFormat(
            fields,
            export.format_version,
            export.compression,
            self._sizes.row_group_bytes,
            self._sizes.file_bytes,
            self._sizes.part_bytes,
            selection.constants,
        )
        pieces = overlapped(
            batches,
            lambda items: encode(items, file_format),
            input_size=lambda batch: batch.nbytes,
            # A row group ahead, or reading and encoding would take turns.
            buffered_input_size=self._sizes.row_group_bytes,
            buffered_outputs=2,
        )
        async with aclosing(pieces):
            await write_files(pieces, bucket, folder, len(run.files), ledger)
        if left_over and ledger.never_wrote(left_over.key):
            # An earlier attempt may have completed this file; its rows were deleted since.
            await bucket.delete(left_over.key)

    async def _require_project(self, run: ExportRun) -> None:
        async with self._database.connection() as connection:
            if not await find_projects(connection, run.tenant_id, run.session_id, 1):
                raise ProjectDeletedError(
                    f"The project {run.session_id} was deleted while it was exported; its files are incomplete."
                )


class _RunLedger:
    """A run's record: written through the fence of its attempt, and told to Temporal by heartbeats."""

    def __init__(self, database: Database, run: ExportRun) -> None:
        self._database = database
        self._run = run
        self._files = list(run.files)
        self._rows_read = 0
        self._new_rows = 0
        self._written_keys: set[str] = set()

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._rows_read += batch.num_rows
            yield batch

    def never_wrote(self, key: str) -> bool:
        return key not in self._written_keys

    async def note_upload(self, upload: PendingUpload | None) -> None:
        async with self._runs() as runs:
            await runs.note_upload(self._run, upload)

    async def add_file(self, file: ExportedFile, cursor: Cursor) -> None:
        async with self._runs() as runs:
            await runs.add_file(self._run, file, cursor)
        self._files.append(file)
        self._new_rows += file.rows
        self._written_keys.add(file.key.partition("/")[2])
        self._heartbeat()

    async def complete(self) -> None:
        async with self._runs() as runs:
            await runs.complete(self._run)

    async def fail(self, reason: str) -> RunExportResult:
        """End the run with a reason that a user can act on."""
        try:
            async with self._runs() as runs:
                await runs.fail(self._run, reason)
        except SupersededError as error:
            raise ApplicationError(str(error), type="SupersededError", non_retryable=True) from error
        return self.result(ExportStatus.FAILED, reason)

    async def retry_later(self, kind: str, reason: str) -> ApplicationError:
        """The error that makes Temporal try again; the reason is kept with the run if the database can be reached."""
        with contextlib.suppress(psycopg.Error, PoolTimeout, SupersededError):
            async with self._runs() as runs:
                await runs.note_error(self._run, reason)
        return ApplicationError(reason, type=kind)

    def result(self, status: str, failure: str | None = None) -> RunExportResult:
        rows = sum(file.rows for file in self._files)
        size = sum(file.bytes for file in self._files)
        return RunExportResult(status, rows, size, len(self._files), failure)

    @asynccontextmanager
    async def reported(self) -> AsyncIterator[None]:
        """Heartbeats and live progress while the context lasts; ends the caller if the attempt was superseded."""
        owner = asyncio.current_task()
        assert owner is not None
        superseded: list[SupersededError] = []

        async def report() -> None:
            noted = -1
            while True:
                self._heartbeat()
                in_flight = self._rows_read - self._new_rows
                if in_flight != noted:
                    noted = in_flight
                    try:
                        async with self._runs() as runs:
                            await runs.note_progress(self._run, in_flight)
                    except SupersededError as error:
                        superseded.append(error)
                        owner.cancel()
                        return
                    except (psycopg.Error, PoolTimeout):
                        log.warning("export_progress_not_noted", run_id=str(self._run.id))
                await asyncio.sleep(_HEARTBEAT_SECONDS)

        task = asyncio.create_task(report())
        try:
            yield
        except asyncio.CancelledError:
            if superseded:
                raise superseded[0] from None
            raise
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _heartbeat(self) -> None:
        rows = sum(file.rows for file in self._files)
        activity.heartbeat(
            RunHeartbeat(
                rows + max(self._rows_read - self._new_rows, 0),
                self._run.rows_planned,
                sum(file.bytes for file in self._files),
                len(self._files),
            )
        )

    @asynccontextmanager
    async def _runs(self) -> AsyncIterator[ExportRuns]:
        async with self._database.connection() as connection:
            yield ExportRuns(connection, self._run.tenant_id)
