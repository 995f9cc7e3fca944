"""Arrow batches to Parquet files: schema, encodings, rolling, and the parts of an upload."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from storage.export_rows import CURSOR_ID, CURSOR_TIME
from storage.export_runs import Cursor

_TEXT = pa.string()
_INTEGERS = {"total_tokens", "prompt_tokens", "completion_tokens"}
_COSTS = {"total_cost", "prompt_cost", "completion_cost"}
_TIMES = {"start_time", "end_time", "first_token_time"}
_REQUIRED = {"id", "trace_id", "tenant_id", "session_id", "name", "run_type", "status", "start_time"}
# Few distinct values: a dictionary makes them vanish. Elsewhere it only costs time.
_REPETITIVE = {
    "tenant_id",
    "session_id",
    "name",
    "run_type",
    "status",
    "trace_tier",
    "tags",
    "reference_example_id",
}
_DOCUMENTS = {"inputs", "outputs", "extra", "events", "error", "feedback_stats", "parent_run_ids"}
_CODECS = {"none": "NONE", "gzip": "GZIP", "snappy": "SNAPPY", "zstandard": "ZSTD"}


def schema_of(fields: list[str], format_version: str) -> pa.Schema:
    """Columns of an exported file. Times: `v2_beta` microseconds in UTC, `v1` nanoseconds without a zone."""
    return pa.schema(
        [pa.field(name, _type_of(name, format_version), name not in _REQUIRED) for name in fields]
    )


def _type_of(name: str, format_version: str) -> pa.DataType:
    if name in _INTEGERS:
        return pa.int64()
    if name in _COSTS:
        return pa.float64()
    if name in _TIMES:
        return pa.timestamp("us", tz="UTC") if format_version == "v2_beta" else pa.timestamp("ns")
    return pa.bool_() if name == "is_root" else _TEXT


@dataclass(frozen=True)
class FileFormat:
    """How files are written. Sizes are in bytes of the file."""

    fields: list[str]
    format_version: str
    compression: str
    target_bytes: int
    part_bytes: int


@dataclass(frozen=True)
class Part:
    """The next bytes of the current file."""

    body: bytes


@dataclass(frozen=True)
class FileEnd:
    """The current file is complete with its last part."""

    rows: int
    bytes: int
    sha256: str
    min_start_time: datetime
    cursor: Cursor


def encode(batches: Iterable[pa.RecordBatch], file_format: FileFormat) -> Iterator[Part | FileEnd]:
    """Files, one after the other, each as parts of `part_bytes` and then its end.

    One row group per batch. A file ends with the first batch that takes it to `target_bytes`, which depends on
    nothing but the rows: from the same row on, the same rows make the same files, byte for byte.
    """
    schema = schema_of(file_format.fields, file_format.format_version)
    file: _File | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if file is None:
            file = _File(schema, file_format)
        file.add(batch)
        yield from file.full_parts()
        if file.size >= file_format.target_bytes:
            yield from file.finish()
            file = None
    if file is not None:
        yield from file.finish()


class _File:
    def __init__(self, schema: pa.Schema, file_format: FileFormat) -> None:
        self._schema = schema
        self._part_bytes = file_format.part_bytes
        self._sink = _Sink()
        names = set(file_format.fields)
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            schema,
            compression=_CODECS[file_format.compression],
            use_dictionary=sorted(names & _REPETITIVE),
            write_statistics=sorted(names - _DOCUMENTS),
            write_page_index=True,
            store_schema=False,
            sorting_columns=_sorting(schema),
        )
        self._rows = 0
        self._first: datetime | None = None
        self._cursor: Cursor | None = None

    @property
    def size(self) -> int:
        return self._sink.size

    def add(self, batch: pa.RecordBatch) -> None:
        last = batch.num_rows - 1
        if self._first is None:
            self._first = batch.column(CURSOR_TIME)[0].as_py()
        self._cursor = Cursor(
            batch.column(CURSOR_TIME)[last].as_py(), UUID(batch.column(CURSOR_ID)[last].as_py())
        )
        self._rows += batch.num_rows
        columns = [_converted(batch.column(field.name), field.type) for field in self._schema]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        self._writer.write_table(table, row_group_size=max(batch.num_rows, 1))

    def full_parts(self) -> Iterator[Part]:
        while self._sink.waiting >= self._part_bytes:
            yield Part(self._sink.take(self._part_bytes))

    def finish(self) -> Iterator[Part | FileEnd]:
        self._writer.close()
        yield from self.full_parts()
        if self._sink.waiting:
            yield Part(self._sink.take(self._part_bytes))
        assert self._first is not None and self._cursor is not None
        yield FileEnd(
            self._rows, self._sink.size, self._sink.sha256, self._first.astimezone(UTC), self._cursor
        )


class _Sink:
    """What Parquet is written into: hands out bytes as soon as there are enough for a part."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._digest = hashlib.sha256()
        self.size = 0
        self.closed = False

    @property
    def waiting(self) -> int:
        return len(self._buffer)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._buffer += view
        self._digest.update(view)
        self.size += view.nbytes
        return view.nbytes

    def take(self, count: int) -> bytes:
        body = bytes(self._buffer[:count])
        del self._buffer[:count]
        return body

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True


def _converted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type.equals(wanted):
        return column
    if pa.types.is_timestamp(wanted) and wanted.tz is None:
        column = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
    return column.cast(wanted)


def _sorting(schema: pa.Schema) -> list[pq.SortingColumn] | None:
    order = [name for name in ("start_time", "id") if name in schema.names]
    if order != ["start_time", "id"]:
        return None
    return [pq.SortingColumn(schema.get_field_index(name)) for name in order]
