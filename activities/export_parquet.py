"""Arrow batches to Parquet files: schema, encodings, rolling, and the parts of an upload."""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
    """How files are written. `constants` are columns that batches need not hold, with the value of every row.

    `row_group_bytes` are of memory, the other sizes of the file.
    """

    fields: list[str]
    format_version: str
    compression: str
    row_group_bytes: int
    target_bytes: int
    part_bytes: int
    constants: dict[str, str] = field(default_factory=dict)


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

    A row group ends with the batch that takes it to `row_group_bytes`, a file with the row group that takes it to
    `target_bytes`, which depends on nothing but the rows: from the same row on, the same rows make the same
    files, byte for byte.
    """
    schema = schema_of(file_format.fields, file_format.format_version)
    file: _File | None = None
    for row_group in _row_groups(batches, file_format.row_group_bytes):
        if file is None:
            file = _File(schema, file_format)
        file.add(row_group)
        del row_group  # or it would stay in memory while the next one is read
        yield from file.full_parts()
        if file.size >= file_format.target_bytes:
            yield from file.finish()
            file = None
    if file is not None:
        yield from file.finish()


def _row_groups(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Batches together until they have `size` bytes."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            held_bytes += batch.nbytes
        del batch
        if held_bytes >= size:
            whole, held, held_bytes = pa.Table.from_batches(held), [], 0
            yield whole
            del whole
    if held:
        yield pa.Table.from_batches(held)


class _File:
    def __init__(self, schema: pa.Schema, file_format: FileFormat) -> None:
        self._schema = schema
        self._constants = file_format.constants
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

    def add(self, row_group: pa.Table) -> None:
        times, ids = row_group.column(CURSOR_TIME), row_group.column(CURSOR_ID)
        if self._first is None:
            self._first = times[0].as_py()
        self._cursor = Cursor(times[-1].as_py(), UUID(ids[-1].as_py()))
        self._rows += row_group.num_rows
        columns = [self._column(row_group, wanted) for wanted in self._schema]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)

    def _column(self, row_group: pa.Table, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
        if wanted.name in self._constants:
            return pa.repeat(self._constants[wanted.name], row_group.num_rows)
        return _converted(row_group.column(wanted.name), wanted.type)

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
        self._pieces: deque[memoryview] = deque()
        self._digest = hashlib.sha256()
        self.waiting = 0
        self.size = 0
        self.closed = False

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        """`data` is kept, not copied: Parquet hands over bytes that nobody else has."""
        self._pieces.append(memoryview(data))
        self._digest.update(data)
        self.waiting += len(data)
        self.size += len(data)
        return len(data)

    def take(self, count: int) -> bytes:
        """The next `count` bytes, or all if there are fewer."""
        taken: list[memoryview] = []
        missing = min(count, self.waiting)
        self.waiting -= missing
        while missing:
            piece = self._pieces.popleft()
            if len(piece) > missing:
                self._pieces.appendleft(piece[missing:])
                piece = piece[:missing]
            taken.append(piece)
            missing -= len(piece)
        return b"".join(taken)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True


def _converted(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
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
