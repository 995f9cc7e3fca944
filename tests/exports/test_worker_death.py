"""The platform worker dies in the middle of an export: it completes, no row twice, none missing."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from storage.database import Database
from tests.conftest import new_workspace
from tests.exports.conftest import Exporter, open_exporter
from tests.exports.seeding import DAY, add_runs, stored_ids
from tests.exports.waiting import until
from tests.stacks import Stack

END = DAY + timedelta(days=2)
ROWS = 60_000


@pytest.fixture
async def slow_exporter(killable_stack: Stack) -> AsyncIterator[Exporter]:
    """That stack rolls files early, so that an export has many."""
    stack = killable_stack
    async with (
        Database(stack.database_url, 4) as database,
        new_workspace(stack, database) as workspace,
        open_exporter(stack, database, workspace) as exporter,
    ):
        yield exporter


async def seed(exporter: Exporter) -> UUID:
    project = await exporter.project()
    for day in range(2):
        await add_runs(
            exporter.database,
            exporter.tenant_id,
            project,
            ROWS,
            start=DAY + timedelta(days=day),
            step=timedelta(milliseconds=1),
            width=2_000,
        )
    return project


async def test_a_killed_worker_costs_no_row(slow_exporter: Exporter) -> None:
    exporter = slow_exporter
    project = await seed(exporter)
    expected = await stored_ids(exporter.database, project, DAY, END)
    destination = await exporter.create_destination()
    created = await exporter.create(destination, DAY, END, session_id=str(project))

    await until(lambda: exporter.rows_written(created["id"]))
    assert (await exporter.get(created["id"]))["status"] == "RUNNING"
    exporter.stack.kill("worker-platform")
    export = await exporter.wait(created["id"], timeout_seconds=120)

    assert export["status"] == "COMPLETED", export
    exported = await exporter.exported_ids(created["id"])
    assert len(exported) == len(set(exported))
    assert exported == expected
    assert await exporter.open_uploads() == []
