"""Files of an export run on their way into the bucket: each appears whole, is recorded, and only then the next."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

from activities.export_parquet import FileEnd, Part
from storage.export_runs import Cursor, ExportedFile, PendingUpload
from storage.s3_upload import Bucket

_PARTS_IN_FLIGHT = 3


class Ledger(Protocol):
    """Where a run's progress is recorded. Each method raises if this attempt was superseded."""

    async def note_upload(self, upload: PendingUpload | None) -> None: ...

    async def add_file(self, file: ExportedFile, cursor: Cursor) -> None: ...


async def write_files(
    pieces: AsyncIterator[Part | FileEnd], bucket: Bucket, folder: str, first_number: int, ledger: Ledger
) -> None:
    """Upload each file as `<folder>/runs-<number>.parquet`.

    Whatever goes wrong, the upload that was open is aborted as far as the bucket can be reached.

    Raises:
        S3Error: the object store refused or cannot be reached.
        SupersededError: another attempt has taken over.
    """
    number = first_number
    upload = _Upload(bucket, _key(folder, number), ledger)
    try:
        async for piece in pieces:
            if isinstance(piece, Part):
                await upload.add(piece.body)
                continue
            await upload.finish(piece)
            number += 1
            upload = _Upload(bucket, _key(folder, number), ledger)
    except BaseException:
        await asyncio.shield(upload.abort())
        raise


def _key(folder: str, number: int) -> str:
    return f"{folder}/runs-{number:05d}.parquet"


class _Upload:
    """One file.

    In parts even if it has only one: a newer attempt can abort an upload, but could not stop a single `PUT` that a
    stalled attempt sends late, over the newer file.
    """

    def __init__(self, bucket: Bucket, key: str, ledger: Ledger) -> None:
        self._bucket = bucket
        self._key = key
        self._ledger = ledger
        self._upload_id: str | None = None
        self._number = 0
        self._sending: set[asyncio.Task[dict[str, Any]]] = set()
        self._sent: list[dict[str, Any]] = []

    async def add(self, body: bytes) -> None:
        if self._upload_id is None:
            self._upload_id = await self._bucket.create_upload(self._key)
            # From here on a newer attempt can find it, and abort it so that it can never appear.
            await self._ledger.note_upload(PendingUpload(self._key, self._upload_id))
        await self._send(body)

    async def finish(self, end: FileEnd) -> None:
        assert self._upload_id is not None, "a file has a part"
        file = ExportedFile(
            key=self._bucket.destination.display(self._key),
            rows=end.rows,
            bytes=end.bytes,
            sha256=end.sha256,
            min_start_time=end.min_start_time.isoformat(),
            max_start_time=end.cursor.time.isoformat(),
        )
        cursor = f"{end.cursor.time.isoformat()} {end.cursor.id}"
        await self._ledger.note_upload(PendingUpload(self._key, self._upload_id, end.rows, cursor))
        await self._collect(until_free=0)
        await self._bucket.complete_upload(self._key, self._upload_id, self._sent)
        self._upload_id = None
        await self._ledger.add_file(file, end.cursor)

    async def abort(self) -> None:
        for task in self._sending:
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)
        if self._upload_id:
            await self._bucket.abort_upload(self._key, self._upload_id)

    async def _send(self, body: bytes) -> None:
        assert self._upload_id is not None
        await self._collect(until_free=_PARTS_IN_FLIGHT - 1)
        self._number += 1
        self._sending.add(
            asyncio.create_task(self._bucket.upload_part(self._key, self._upload_id, self._number, body))
        )

    async def _collect(self, *, until_free: int) -> None:
        """Wait until at most `until_free` parts are on their way."""
        while len(self._sending) > until_free:
            done, self._sending = await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
            self._sent += [task.result() for task in done]
