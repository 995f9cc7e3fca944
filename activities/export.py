"""What an export's workflow asks of the world, apart from writing files: plan it, and settle it."""

import asyncio
import time
from datetime import UTC
from uuid import UUID

import orjson
from temporalio import activity

from storage.database import Database
from storage.destinations import Destinations
from storage.export_filter import FilterError, compile_condition
from storage.export_layout import manifest_path
from storage.export_plan import tile
from storage.export_rows import count_by_day, find_projects
from storage.export_runs import ExportRun, ExportRuns
from storage.exports import Export, Exports
from storage.s3_destination import S3Destination
from storage.s3_errors import S3Error
from storage.s3_upload import Bucket
from storage.secrets import SecretBox, UndecryptableSecretError
from workflows.messages.export import (
    BEGIN_EXPORT,
    FINISH_EXPORT,
    LIST_EXPORT_RUNS,
    PLAN_EXPORT,
    UNFINISHED,
    Begun,
    ExportRef,
    ExportStatus,
    Finished,
    FinishExport,
    ListExportRuns,
    PendingRun,
    PendingRuns,
    Plan,
)

# Longer than a creating transaction may stay idle (api.exports.creation), so no row can appear afterwards.
_ROW_WAIT_SECONDS = 30.0


class ExportActivities:
    """Records of exports. All idempotent."""

    def __init__(
        self,
        database: Database,
        secrets: SecretBox,
        *,
        allow_private_endpoints: bool,
        max_experiments: int | None = None,
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._allow_private_endpoints = allow_private_endpoints
        self._max_experiments = max_experiments

    @activity.defn(name=BEGIN_EXPORT)
    async def begin(self, ref: ExportRef) -> Begun:
        """Make the export RUNNING; waits for its row, which may not be committed yet."""
        deadline = time.monotonic() + _ROW_WAIT_SECONDS
        while True:
            async with self._database.transaction() as connection:
                exports = Exports(connection, UUID(ref.tenant_id))
                status = await exports.lock_status(UUID(ref.export_id))
                if status is not None:
                    await exports.start(UUID(ref.export_id))
                    return Begun(True, ExportStatus.RUNNING if status == ExportStatus.CREATED else status)
            if time.monotonic() > deadline:
                return Begun(False)
            await asyncio.sleep(0.05)

    @activity.defn(name=PLAN_EXPORT)
    async def plan(self, ref: ExportRef) -> Plan:
        """Resolve the projects, count their runs per UTC day, and store an export run for each day."""
        tenant_id, export_id = UUID(ref.tenant_id), UUID(ref.export_id)
        async with self._database.transaction() as connection:
            export = await Exports(connection, tenant_id).get(export_id)
            if export is None or export.end_time is None:
                return Plan(failure="The export does not exist any more.")
            projects = await find_projects(connection, tenant_id, export.session_id, self._max_experiments)
            if failure := self._project_problem(export, len(projects)):
                return Plan(failure=failure)
            try:
                condition = compile_condition(export.filter)
            except FilterError as error:
                return Plan(failure=f"The filter cannot be used: {error}")
            counts = await count_by_day(
                connection, tenant_id, projects, export.start_time, export.end_time, condition
            )
            runs = ExportRuns(connection, tenant_id)
            await runs.plan(export_id, tile(projects, export.start_time, export.end_time, counts))
            unfinished, rows = await runs.count_unfinished(export_id)
        return Plan(unfinished, rows)

    def _project_problem(self, export: Export, found: int) -> str | None:
        if not export.all_experiments:
            return None if found else f"The project {export.session_id} does not exist any more."
        if self._max_experiments is not None and found > self._max_experiments:
            return (
                f"The workspace has more than {self._max_experiments} experiments, the most that one export may"
                " hold: export them project by project."
            )
        return None

    @activity.defn(name=LIST_EXPORT_RUNS)
    async def list_runs(self, request: ListExportRuns) -> PendingRuns:
        async with self._database.connection() as connection:
            runs = ExportRuns(connection, UUID(request.export.tenant_id))
            found = await runs.unfinished(UUID(request.export.export_id), request.limit)
        return PendingRuns(
            [
                PendingRun(
                    str(run.id),
                    f"{run.start_time.astimezone(UTC):%Y-%m-%d} of project {run.session_id}: {run.rows_planned} runs",
                )
                for run in found
            ]
        )

    @activity.defn(name=FINISH_EXPORT)
    async def finish(self, request: FinishExport) -> Finished:
        """End the export: no upload stays open, a complete one has its manifest, and then its status is set."""
        tenant_id, export_id = UUID(request.export.tenant_id), UUID(request.export.export_id)
        status, error = request.status, request.error
        async with self._database.transaction() as connection:
            export = await Exports(connection, tenant_id).get(export_id)
            if export is None:
                return Finished(status, error)
            if export.status not in UNFINISHED:
                status, error = export.status, export.error
            runs = ExportRuns(connection, tenant_id)
            if status != ExportStatus.COMPLETED:
                left = ExportStatus.CANCELLED if status == ExportStatus.FAILED else status
                await runs.end_unfinished(export_id, left)
            open_uploads = await runs.with_pending_uploads(export_id)
            finished = await runs.of_export(export_id) if status == ExportStatus.COMPLETED else []
            destination = await self._destination(Destinations(connection, tenant_id), export)
        try:
            await self._leave_bucket(destination, export, status, finished, open_uploads)
        except S3Error as failure:
            if status == ExportStatus.COMPLETED and not failure.failure.lasting:
                raise
            if status == ExportStatus.COMPLETED:
                status, error = (
                    ExportStatus.FAILED,
                    f"The manifest cannot be written: {failure.failure.reason}",
                )
        async with self._database.transaction() as connection:
            exports = Exports(connection, tenant_id)
            await exports.finish(export_id, status, error)
            stored = await exports.lock_status(export_id) or status
        if status == ExportStatus.COMPLETED and stored != status and destination is not None:
            await _remove_manifest(destination, export_id)  # cancelled while the manifest was written
        return Finished(stored, error)

    async def _leave_bucket(
        self,
        destination: S3Destination | None,
        export: Export,
        status: str,
        finished: list[ExportRun],
        open_uploads: list[ExportRun],
    ) -> None:
        if destination is None:
            return
        async with destination.client() as client:
            bucket = Bucket(destination, client)
            await self._abort(bucket, open_uploads)
            if status == ExportStatus.COMPLETED:
                body = await asyncio.to_thread(_manifest, export, finished, bucket)
                await bucket.put(destination.key(manifest_path(export.id)), body)

    async def _destination(self, destinations: Destinations, export: Export) -> S3Destination | None:
        """None if the operator has lost the key of its credentials: then nothing in the bucket can be settled."""
        destination = await destinations.get(export.destination_id)
        stored = await destinations.credentials(export.destination_id)
        assert destination is not None and stored is not None
        try:
            credentials = self._secrets.decrypt(stored[1])
        except UndecryptableSecretError:
            return None
        return S3Destination(destination.config, credentials, self._allow_private_endpoints)

    async def _abort(self, bucket: Bucket, runs: list[ExportRun]) -> None:
        for run in runs:
            upload = run.pending_upload
            if (
                upload is None
                or upload.upload_id is None
                or await bucket.abort_upload(upload.key, upload.upload_id)
            ):
                async with self._database.connection() as connection:
                    await ExportRuns(connection, run.tenant_id).clear_pending_upload(run.export_id, run.id)


async def _remove_manifest(destination: S3Destination, export_id: UUID) -> None:
    async with destination.client() as client:
        await Bucket(destination, client).delete(destination.key(manifest_path(export_id)))


def _manifest(export: Export, runs: list[ExportRun], bucket: Bucket) -> bytes:
    """What a complete export consists of. Its presence says that the export is complete."""
    assert export.end_time is not None
    files = [
        {
            "key": file.key.removeprefix(f"{bucket.destination.bucket}/"),
            "session_id": str(run.session_id),
            "day": f"{run.start_time.astimezone(UTC):%Y-%m-%d}",
            "rows": file.rows,
            "bytes": file.bytes,
            "sha256": file.sha256,
            "min_start_time": file.min_start_time,
            "max_start_time": file.max_start_time,
        }
        for run in runs
        for file in run.files
    ]
    return orjson.dumps(
        {
            "version": 1,
            "export_id": str(export.id),
            "tenant_id": str(export.tenant_id),
            "bucket": bucket.destination.bucket,
            "start_time": export.start_time.astimezone(UTC).isoformat(),
            "end_time": export.end_time.astimezone(UTC).isoformat(),
            "all_experiments": export.all_experiments,
            "session_ids": sorted({str(run.session_id) for run in runs}),
            "filter": export.filter,
            "format_version": export.format_version,
            "compression": export.compression,
            "export_fields": export.export_fields,
            "source_bulk_export_id": str(export.source_export_id) if export.source_export_id else None,
            "rows": sum(run.rows_written for run in runs),
            "bytes": sum(run.bytes_written for run in runs),
            "min_start_time": min((file.min_start_time for run in runs for file in run.files), default=None),
            "max_start_time": max((file.max_start_time for run in runs for file in run.files), default=None),
            "files": files,
        },
        option=orjson.OPT_INDENT_2,
    )
