"""An attempt that was taken for dead, and goes on after its successor has written the same file."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from activities.export_files import write_files
from activities.export_parquet import FileEnd, Part
from storage.export_runs import Cursor, ExportedFile, PendingUpload
from storage.ids import new_id
from storage.s3_destination import S3Destination
from storage.s3_errors import S3Error
from storage.s3_upload import Bucket
from tests.exports.conftest import Exporter

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Record:
    """A run's record of an attempt that nobody has superseded."""

    async def note_upload(self, upload: PendingUpload | None) -> None: ...

    async def add_file(self, file: ExportedFile, cursor: Cursor) -> None: ...


class StalledRecord(Record):
    """Stalls after its last word before the file appears; meanwhile a successor does the work."""

    def __init__(self, bucket: Bucket, folder: str) -> None:
        self._bucket, self._folder = bucket, folder

    async def note_upload(self, upload: PendingUpload | None) -> None:
        assert upload is not None and upload.upload_id
        if upload.rows:
            await self._bucket.abort_upload(upload.key, upload.upload_id)
            await write_file(self._bucket, self._folder, b"newer", Record())


async def write_file(bucket: Bucket, folder: str, body: bytes, record: Record) -> None:
    async def pieces() -> AsyncIterator[Part | FileEnd]:
        yield Part(body)
        yield FileEnd(1, len(body), hashlib.sha256(body).hexdigest(), NOW, Cursor(NOW, new_id()))

    async with aclosing(pieces()) as given:
        await write_files(given, bucket, folder, 0, record)


async def test_a_stalled_attempt_does_not_replace_its_successors_file(exporter: Exporter) -> None:
    given = exporter.destination_body()
    destination = S3Destination(given["config"], given["credentials"], allow_private_endpoints=True)
    folder = destination.key(f"stalled-{new_id()}")
    async with destination.client() as client:
        bucket = Bucket(destination, client)
        with pytest.raises(S3Error):
            await write_file(bucket, folder, b"older", StalledRecord(bucket, folder))
        answer = await client.get_object(Bucket=destination.bucket, Key=f"{folder}/runs-00000.parquet")
        assert await answer["Body"].read() == b"newer"
