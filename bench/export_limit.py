"""The bare limit of an export on this machine: no workflow, no record, no retry, just the three stages."""

import queue
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import botocore.session
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_postgresql import StatementOptions, dbapi
from botocore.config import Config
from psycopg import sql

from settings import Settings
from storage.export_rows import COLUMNS

_BATCH_BYTES = 8 * 1024 * 1024
_PART_BYTES = 8 * 1024 * 1024


def bare_limit(
    settings: Settings, tenant_id: UUID, project_id: UUID, start: datetime, end: datetime
) -> tuple[float, int]:
    """Seconds and bytes: ADBC batches to zstd Parquet to the settings' demo bucket, in one process, overlapping."""
    url = settings.require_database_url()
    began = time.perf_counter()
    batches: queue.Queue[pa.RecordBatch | None] = queue.Queue(2)
    reader = threading.Thread(
        target=_read, args=(url, _query(url, tenant_id, project_id, start, end), batches)
    )
    reader.start()
    upload = _Upload(settings)
    writer: pq.ParquetWriter | None = None
    while (batch := batches.get()) is not None:
        writer = writer or pq.ParquetWriter(
            pa.PythonFile(upload, mode="w"),
            batch.schema,
            compression="zstd",
            use_dictionary=["name", "status"],
        )
        writer.write_batch(batch)
    if writer:
        writer.close()
    size = upload.finish()
    reader.join()
    return time.perf_counter() - began, size


def _query(url: str, tenant_id: UUID, project_id: UUID, start: datetime, end: datetime) -> str:
    columns = ", ".join(f"{expression} AS {name}" for name, expression in COLUMNS.items())
    with psycopg.connect(url) as connection:
        return (
            sql.SQL(
                "SELECT {} FROM trace_runs WHERE tenant_id = {} AND session_id = {} AND start_time >= {}"
                " AND start_time < {} ORDER BY trace_runs.start_time, trace_runs.id"
            )
            .format(sql.SQL(columns), tenant_id, project_id, start, end)  # type: ignore[arg-type]
            .as_string(connection)
        )


def _read(url: str, query: str, batches: "queue.Queue[pa.RecordBatch | None]") -> None:
    hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
    with dbapi.connect(url) as connection, connection.cursor(adbc_stmt_kwargs=hint) as cursor:
        cursor.execute(query)
        for batch in cursor.fetch_record_batch():
            batches.put(batch)
    batches.put(None)


class _Upload:
    """A multipart upload that Parquet is written into."""

    def __init__(self, settings: Settings) -> None:
        assert settings.s3_secret_access_key is not None
        self._client = botocore.session.get_session().create_client(
            "s3",
            endpoint_url=settings.s3_endpoint,
            region_name=settings.s3_region,
            aws_access_key_id=settings.s3_access_key_id,
            aws_secret_access_key=settings.s3_secret_access_key.get_secret_value(),
            config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
        )
        self._place = {"Bucket": settings.demo_bucket, "Key": f"bench/bare/{uuid4()}.parquet"}
        self._id = self._client.create_multipart_upload(**self._place)["UploadId"]
        self._pool = ThreadPoolExecutor(3)
        self._slots = threading.Semaphore(4)
        self._parts: list[Future[dict[str, Any]]] = []
        self._buffer = bytearray()
        self._size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._buffer += data
        self._size += len(data)
        if len(self._buffer) >= _PART_BYTES:
            self._send()
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True

    def finish(self) -> int:
        self._send()
        parts = [part.result() for part in self._parts]
        self._client.complete_multipart_upload(
            **self._place, UploadId=self._id, MultipartUpload={"Parts": parts}
        )
        self._client.delete_object(**self._place)
        self._pool.shutdown()
        return self._size

    def _send(self) -> None:
        body, number = bytes(self._buffer), len(self._parts) + 1
        self._buffer.clear()
        self._slots.acquire()
        self._parts.append(self._pool.submit(self._send_part, number, body))

    def _send_part(self, number: int, body: bytes) -> dict[str, Any]:
        try:
            answer = self._client.upload_part(**self._place, UploadId=self._id, PartNumber=number, Body=body)
        finally:
            self._slots.release()
        return {"PartNumber": number, "ETag": answer["ETag"]}
