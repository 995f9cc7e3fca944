"""What the files say: as every common reader sees them, and as `/runs/query` answers."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from storage.export_rows import COLUMNS
from tests.exports.conftest import Exporter
from tests.exports.seeding import DAY, add_runs

END = DAY + timedelta(days=2)
ROWS = 120
JSON_COLUMNS = ("inputs", "outputs", "extra", "events", "tags", "feedback_stats", "parent_run_ids")
COSTS = ("total_cost", "prompt_cost", "completion_cost")
TIMES = ("start_time", "end_time", "first_token_time")


async def export(exporter: Exporter, folder: Path, **body: Any) -> Path:
    """Export the test's runs, and fetch the files into `folder` as they lie in the bucket."""
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, ROWS, step=timedelta(minutes=20))
    created = await exporter.create(
        await exporter.create_destination(), DAY, END, session_id=str(project), **body
    )
    ended = await exporter.wait(created["id"])
    assert ended["status"] == "COMPLETED", ended
    for key in await exporter.keys(f"export_id={created['id']}/"):
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(await exporter.read(key))
    return folder


async def test_every_value_is_what_the_query_api_says(exporter: Exporter, tmp_path: Path) -> None:
    folder = await export(exporter, tmp_path)
    exported = {row["id"]: row for row in _table(folder).to_pylist()}
    answered = await _query_all(exporter)

    assert set(exported) == {run["id"] for run in answered}
    assert len(exported) == ROWS
    for run in answered:
        row = exported[run["id"]]
        for name in COLUMNS:
            assert _plain(name, row[name]) == _plain_answer(name, run.get(name)), name


async def _query_all(exporter: Exporter) -> list[dict[str, Any]]:
    project = await exporter.project()
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        answer = await exporter.client.post(
            "/api/v1/runs/query",
            json={
                "session": [str(project)],
                "start_time": DAY.isoformat(),
                "limit": 100,
                "select": [name for name in COLUMNS if name != "tenant_id"],
                **({"cursor": cursor} if cursor else {}),
            },
        )
        assert answer.status_code == 200, answer.text
        found += answer.json()["runs"]
        cursor = answer.json()["cursors"]["next"]
        if not cursor:
            return [{**run, "tenant_id": str(exporter.tenant_id)} for run in found]


def _plain(name: str, value: Any) -> Any:
    if name in JSON_COLUMNS:
        return json.loads(value) if value is not None else None
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _plain_answer(name: str, value: Any) -> Any:
    if name in TIMES and value is not None:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if name in COSTS and value is not None:
        return float(value)
    return value


def _table(folder: Path) -> pa.Table:
    files = sorted(folder.rglob("*.parquet"))
    return pa.concat_tables(pq.ParquetFile(path).read() for path in files)


async def test_columns_have_the_types_of_the_contract(exporter: Exporter, tmp_path: Path) -> None:
    table = _table(await export(exporter, tmp_path))

    assert table.schema.names == list(COLUMNS)
    assert len(COLUMNS) == 29
    types = {field.name: field.type for field in table.schema}
    assert {types[name] for name in TIMES} == {pa.timestamp("us", tz="UTC")}
    assert {types[name] for name in COSTS} == {pa.float64()}
    assert {types[f"{name}_tokens"] for name in ("total", "prompt", "completion")} == {pa.int64()}
    assert types["is_root"] == pa.bool_()
    others = set(COLUMNS) - {*TIMES, *COSTS, "is_root", "total_tokens", "prompt_tokens", "completion_tokens"}
    assert {types[name] for name in others} == {pa.string()}
    assert not table.schema.field("id").nullable


async def test_v1_times_are_nanoseconds_without_a_zone(exporter: Exporter, tmp_path: Path) -> None:
    table = _table(await export(exporter, tmp_path, format_version="v1"))

    assert {table.schema.field(name).type for name in TIMES} == {pa.timestamp("ns")}
    assert table.column("start_time")[0].as_py() == pd.Timestamp(DAY.replace(tzinfo=None))


async def test_only_the_wanted_fields_are_exported_in_their_usual_order(
    exporter: Exporter, tmp_path: Path
) -> None:
    table = _table(await export(exporter, tmp_path, export_fields=["name", "id", "total_tokens"]))

    assert table.schema.names == ["id", "name", "total_tokens"]
    assert table.num_rows == ROWS


@pytest.mark.parametrize(
    ("compression", "codec"),
    [("none", "UNCOMPRESSED"), ("gzip", "GZIP"), ("snappy", "SNAPPY"), ("zstandard", "ZSTD")],
)
async def test_compressions(exporter: Exporter, tmp_path: Path, compression: str, codec: str) -> None:
    folder = await export(exporter, tmp_path, compression=compression)

    metadata = pq.ParquetFile(next(iter(folder.rglob("*.parquet")))).metadata
    assert metadata.row_group(0).column(0).compression == codec
    assert _table(folder).num_rows == ROWS


async def test_readers_of_hive_folders_agree(exporter: Exporter, tmp_path: Path) -> None:
    folder = await export(exporter, tmp_path)
    expected = _table(folder)
    ids = expected.column("id").to_pylist()
    pattern = str(folder / "export_id=*" / "**" / "*.parquet")

    by_duckdb = duckdb.sql(
        "SELECT id, session_id, year, month, day, typeof(start_time)"
        f" FROM read_parquet('{pattern}', hive_partitioning=true)"
        " ORDER BY start_time, id"
    ).fetchall()
    assert [row[0] for row in by_duckdb] == ids
    assert {str(row[1]) for row in by_duckdb} == set(expected.column("session_id").to_pylist())
    assert {row[2:5] for row in by_duckdb} == {(2024, 2, 28), (2024, 2, 29)}
    assert {row[5] for row in by_duckdb} == {"TIMESTAMP WITH TIME ZONE"}
    pruned = duckdb.sql(
        f"SELECT count(*) FROM read_parquet('{pattern}', hive_partitioning=true) WHERE day = 29"
    )
    assert pruned.fetchall() == [(48,)]

    by_arrow = ds.dataset(folder, format="parquet", partitioning=ds.partitioning(flavor="hive"))
    assert sorted(by_arrow.to_table(columns=["id"]).column("id").to_pylist()) == sorted(ids)
    assert by_arrow.count_rows(filter=ds.field("day") == 29) == 48

    by_polars = pl.read_parquet(pattern, hive_partitioning=True).sort("start_time", "id")
    assert by_polars["id"].to_list() == ids
    assert by_polars["start_time"].dtype == pl.Datetime("us", "UTC")

    by_pandas = pd.concat(
        pd.read_parquet(path, partitioning=None) for path in sorted(folder.rglob("*.parquet"))
    )
    assert by_pandas["id"].tolist() == ids
    assert by_pandas["total_tokens"].sum() == sum(range(ROWS)) - sum(range(144, ROWS))


async def test_row_groups_allow_pruning(exporter: Exporter, tmp_path: Path) -> None:
    folder = await export(exporter, tmp_path)

    metadata = pq.ParquetFile(sorted(folder.rglob("*.parquet"))[0]).metadata
    by_name = {
        metadata.schema.column(index).name: metadata.row_group(0).column(index)
        for index in range(metadata.num_columns)
    }
    assert by_name["start_time"].statistics.min == DAY
    assert by_name["id"].statistics.has_min_max
    assert [order.column_index for order in metadata.row_group(0).sorting_columns] == [9, 0]


async def test_a_filter_narrows_the_export(exporter: Exporter, tmp_path: Path) -> None:
    wanted = 'and(eq(status, "error"), gte(total_tokens, 40))'
    table = _table(await export(exporter, tmp_path, filter=wanted))

    assert sorted(table.column("total_tokens").to_pylist()) == [44, 55, 66, 77, 88, 99, 110]
    assert set(table.column("status").to_pylist()) == {"error"}


@pytest.mark.parametrize("text", ['has(tags, "100%")', "like(name, '%in 3')", 'search("quo\'te % \\\\ it")'])
async def test_filters_with_awkward_values(exporter: Exporter, tmp_path: Path, text: str) -> None:
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 14)
    created = await exporter.create(
        await exporter.create_destination(), DAY, END, session_id=str(project), filter=text
    )

    ended = await exporter.wait(created["id"])

    assert ended["status"] == "COMPLETED", ended
    assert len(await exporter.exported_ids(created["id"])) == (2 if "like" in text else 0)


async def test_rows_of_20_megabytes_are_exported(exporter: Exporter) -> None:
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 3, width=20_000_000)
    created = await exporter.create(await exporter.create_destination(), DAY, END, session_id=str(project))

    ended = await exporter.wait(created["id"])

    assert ended["status"] == "COMPLETED", ended
    (table,) = await exporter.tables(created["id"])
    assert [len(text) > 20_000_000 for text in table.column("inputs").to_pylist()] == [True] * 3
    assert await exporter.open_uploads() == []
