"""One-time exports: what they hold, and where."""

import hashlib
import json
from datetime import timedelta

from tests.exports.conftest import Exporter
from tests.exports.seeding import DAY, add_runs, stored_ids

ONE_DAY = timedelta(days=1)


async def test_a_one_time_export_holds_every_run_once_in_order(exporter: Exporter) -> None:
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 2_000, step=timedelta(minutes=2))
    destination = await exporter.create_destination()
    end = DAY + 3 * ONE_DAY

    created = await exporter.create(destination, DAY, end, session_id=str(project))
    export = await exporter.wait(created["id"])

    assert export["status"] == "COMPLETED", export
    assert await exporter.exported_ids(created["id"]) == await stored_ids(
        exporter.database, project, DAY, end
    )
    assert export["progress"]["rows_written"] == 2_000
    assert export["progress"]["percent"] == 100.0


async def test_files_lie_in_hive_folders_by_utc_day(exporter: Exporter) -> None:
    """Mission document, Exported data layout; 2024-02-29 is a leap day."""
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 30, step=timedelta(hours=2))
    destination = await exporter.create_destination()

    created = await exporter.create(destination, DAY, DAY + 4 * ONE_DAY, session_id=str(project))
    await exporter.wait(created["id"])

    folder = f"export_id={created['id']}/tenant_id={exporter.tenant_id}/session_id={project}/runs/year=2024"
    assert sorted(await exporter.keys()) == sorted(
        [
            f"{folder}/month=2/day=28/runs-00000.parquet",
            f"{folder}/month=2/day=29/runs-00000.parquet",
            f"{folder}/month=3/day=1/runs-00000.parquet",
            f"manifests/export_id={created['id']}.json",
        ]
    )


async def test_the_window_includes_its_start_and_excludes_its_end(exporter: Exporter) -> None:
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 10, step=timedelta(hours=1))
    destination = await exporter.create_destination()
    start, end = DAY + timedelta(hours=2), DAY + timedelta(hours=5)

    created = await exporter.create(destination, start, end, session_id=str(project))
    await exporter.wait(created["id"])

    tables = await exporter.tables(created["id"])
    times = [value for table in tables for value in table.column("start_time").to_pylist()]
    assert times == [DAY + timedelta(hours=hour) for hour in (2, 3, 4)]


async def test_an_export_without_runs_completes_with_no_file(exporter: Exporter) -> None:
    project = await exporter.project()
    destination = await exporter.create_destination()

    created = await exporter.create(destination, DAY, DAY + ONE_DAY, session_id=str(project))
    export = await exporter.wait(created["id"])

    assert export["status"] == "COMPLETED"
    assert export["progress"]["rows_written"] == 0
    assert await exporter.keys() == [f"manifests/export_id={created['id']}.json"]


async def test_the_manifest_lists_every_file_with_its_checksum(exporter: Exporter) -> None:
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 40, step=timedelta(hours=1))
    destination = await exporter.create_destination()

    created = await exporter.create(destination, DAY, DAY + 2 * ONE_DAY, session_id=str(project))
    await exporter.wait(created["id"])

    manifest = json.loads(await exporter.read(f"manifests/export_id={created['id']}.json"))
    assert manifest["rows"] == 40
    assert [file["rows"] for file in manifest["files"]] == [24, 16]
    for file in manifest["files"]:
        body = await exporter.read(file["key"].removeprefix(f"{exporter.prefix}/"))
        assert len(body) == file["bytes"]
        assert _sha256(body) == file["sha256"]


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
