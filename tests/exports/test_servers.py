"""The servers that exports rest on go away and come back."""

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from storage.database import Database
from tests.conftest import new_workspace
from tests.exports.conftest import BASE, Exporter, open_exporter
from tests.exports.fault_proxy import Delay, fault_proxy
from tests.exports.scheduling import create_frequent_schedule, moment, spawned, wait_spawned
from tests.exports.seeding import DAY, add_runs, stored_ids
from tests.exports.waiting import until
from tests.stacks import Stack

END = DAY + timedelta(days=1)


@pytest.fixture
async def own(killable_stack: Stack) -> AsyncIterator[Exporter]:
    stack = killable_stack
    async with (
        Database(stack.database_url, 4) as database,
        new_workspace(stack, database) as workspace,
        open_exporter(stack, database, workspace) as exporter,
    ):
        yield exporter


async def test_postgresql_restarting_in_the_middle_of_an_export_costs_no_row(own: Exporter) -> None:
    project = await own.project()
    await add_runs(own.database, own.tenant_id, project, 20_000, step=timedelta(milliseconds=1), width=4_000)
    expected = await stored_ids(own.database, project, DAY, END)
    async with fault_proxy(own.stack.s3_endpoint_url) as proxy:
        proxy.rule = lambda request: Delay(0.5) if request.writes_data else None
        destination = await own.create_destination(config={"endpoint_url": proxy.url})
        created = await own.create(destination, DAY, END, session_id=str(project), compression="none")

        async def two_parts_are_there() -> bool:
            return any(request.part_number == 2 for request in proxy.requests)

        await until(two_parts_are_there)
        killed = own.stack.kill("postgres")
        own.stack.wait_restarted("postgres", killed)
        proxy.rule = lambda _: None
        ended = await own.wait(created["id"], timeout_seconds=180)

    assert ended["status"] == "COMPLETED", ended
    assert await own.exported_ids(created["id"]) == expected
    assert await own.open_uploads() == []


async def test_without_temporal_nothing_is_stored_and_the_answer_is_503(own: Exporter) -> None:
    project, destination = await own.project(), await own.create_destination()
    running = await own.create(destination, DAY, END, session_id=str(project))
    await own.wait(running["id"])
    body = {
        "bulk_export_destination_id": destination,
        "session_id": str(project),
        "start_time": DAY.isoformat(),
        "end_time": END.isoformat(),
    }
    own.stack.stop("temporal")

    one_time = await own.client.post(BASE, json=body)
    schedule = await own.client.post(BASE, json=body | {"end_time": None, "interval_hours": 168})

    for answer in (one_time, schedule):
        assert answer.status_code == 503, answer.text
        assert answer.headers["Retry-After"]
    assert len((await own.client.get(BASE)).json()) == 1, "reads work, and nothing was stored"

    own.stack.start("temporal")

    async def created() -> str | None:
        answer = await own.client.post(BASE, json=body)
        return str(answer.json()["id"]) if answer.status_code == 200 else None

    ended = await own.wait(await until(created) or "")
    assert ended["status"] == "COMPLETED"


async def test_windows_that_came_due_while_the_service_was_down_are_exported_afterwards_once(
    own: Exporter,
) -> None:
    """Neither Temporal nor the platform worker is there over several windows of a schedule."""
    project, start = await own.project(), datetime.now(UTC) + timedelta(seconds=1)
    await add_runs(own.database, own.tenant_id, project, 3_000, start=start, step=timedelta(milliseconds=100))
    temporal = await Client.connect(own.stack.temporal_address)
    schedule = await create_frequent_schedule(own, temporal, start, session_id=str(project))
    before = len(await wait_spawned(own, schedule["id"], 2, and_all=False))

    own.stack.stop("worker-platform")
    own.stack.stop("temporal")
    down_since = datetime.now(UTC)
    over = down_since + timedelta(seconds=11)

    async def several_windows_have_passed() -> bool:
        return datetime.now(UTC) > over

    await until(several_windows_have_passed)
    seen = len(await spawned(own, schedule["id"]))
    own.stack.start("temporal")
    own.stack.start("worker-platform")
    # Five windows of 2 s came due meanwhile; one more shows that the schedule goes on.
    await wait_spawned(own, schedule["id"], seen + 6, and_all=False)
    cancelled = await own.client.patch(f"{BASE}/{schedule['id']}", json={"status": "Cancelled"})
    assert cancelled.status_code == 200, cancelled.text
    children = await wait_spawned(own, schedule["id"], seen + 6)

    assert seen >= before >= 2
    spans = [(moment(child["start_time"]), moment(child["end_time"])) for child in children]
    bounds = [start + timedelta(seconds=2 * number) for number in range(len(children) + 1)]
    assert spans == list(itertools.pairwise(bounds)), "every window once, none left out"
    while_down = [child for child, span in zip(children, spans, strict=True) if down_since < span[1] < over]
    assert len(while_down) >= 5
    assert {child["status"] for child in children} == {"COMPLETED"}
    exported = [run_id for child in children for run_id in await own.exported_ids(child["id"])]
    assert exported == await stored_ids(own.database, project, start, bounds[-1])
    assert await own.open_uploads() == []
