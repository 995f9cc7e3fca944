"""The worker dies at every step of an export run: no row twice, none missing, whatever the step."""

import asyncio
import json
import sys
from datetime import timedelta

from storage.export_plan import tile
from storage.export_rows import count_by_day
from storage.export_runs import ExportRuns
from storage.exports import Exports, NewExport
from storage.ids import new_id
from tests.exports.conftest import BASE, Exporter
from tests.exports.seeding import DAY, add_runs, stored_ids
from tests.stacks import REPOSITORY

END = DAY + timedelta(days=1)
ROWS = 4_200


async def test_dying_at_every_step_costs_no_row(exporter: Exporter) -> None:
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, ROWS, width=4_000)
    destination = (
        await exporter.client.get(f"{BASE}/destinations/{await exporter.create_destination()}")
    ).json()
    export = NewExport(
        id=new_id(),
        destination_id=destination["id"],
        session_id=project,
        all_experiments=False,
        start_time=DAY,
        end_time=END,
        filter=None,
        format_version="v2_beta",
        compression="none",
        interval_hours=None,
        export_fields=None,
    )
    async with exporter.database.transaction() as connection:
        await Exports(connection, exporter.tenant_id).create(export)
        counts = await count_by_day(connection, exporter.tenant_id, [project], DAY, END, None)
        runs = ExportRuns(connection, exporter.tenant_id)
        await runs.plan(export.id, tile([project], DAY, END, counts))
        run = (await runs.of_export(export.id))[0]

    attempts = await _die_until_complete(exporter, str(export.id), str(run.id))

    listed = (await exporter.client.get(f"{BASE}/{export.id}/runs")).json()[0]
    assert listed["status"] == "COMPLETED"
    assert listed["retry_number"] < attempts
    assert attempts > 20, "every step was died at"
    files = listed["metadata"]["result"]["exported_files"]
    assert [name[-18:] for name in files] == [f"runs-{number:05d}.parquet" for number in range(len(files))]
    assert len(files) > 2
    assert len(await exporter.keys(f"export_id={export.id}/")) == len(files)
    exported = await exporter.exported_ids(str(export.id))
    assert exported == await stored_ids(exporter.database, project, DAY, END)
    assert await exporter.open_uploads() == []


async def _die_until_complete(exporter: Exporter, export_id: str, run_id: str) -> int:
    given = {
        "database_url": exporter.stack.database_url,
        "home": str(exporter.stack.home),
        "tenant_id": str(exporter.tenant_id),
        "export_id": export_id,
        "run_id": run_id,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.exports.dying_attempts",
        json.dumps(given),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, errors.decode()[-2000:]
    return int(output)
