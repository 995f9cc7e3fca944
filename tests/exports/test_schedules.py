"""Scheduled exports: exact windows, past ones afterwards, and what cancelling leaves alone."""

import itertools
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from temporalio.client import Client, ScheduleBackfill, ScheduleOverlapPolicy

from tests.exports.conftest import BASE, Exporter
from tests.exports.scheduling import (
    create_frequent_schedule,
    create_schedule,
    moment,
    spawned,
    wait_spawned,
)
from tests.exports.seeding import DAY, add_runs, stored_ids
from workflows.messages import names


async def test_past_windows_are_exported_without_gap_or_overlap(exporter: Exporter) -> None:
    project = await exporter.project()
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start = now - timedelta(hours=25)
    await add_runs(
        exporter.database, exporter.tenant_id, project, 300, start=start, step=timedelta(minutes=5)
    )

    schedule = await create_schedule(exporter, start, 6, session_id=str(project))
    assert (schedule["status"], schedule["end_time"]) == ("RUNNING", None)
    children = await wait_spawned(exporter, schedule["id"], 4)

    windows = [(moment(child["start_time"]), moment(child["end_time"])) for child in children]
    bounds = [start + timedelta(hours=6 * number) for number in range(5)]
    assert windows == list(itertools.pairwise(bounds))
    assert [child["status"] for child in children] == ["COMPLETED"] * 4
    exported = [run_id for child in children for run_id in await exporter.exported_ids(child["id"])]
    assert exported == await stored_ids(exporter.database, project, start, bounds[-1])


async def test_a_week_of_windows_comes_from_scheduled_times(
    exporter: Exporter, temporal_client: Client
) -> None:
    """The server fires a week of a 6-hour schedule at once; each window is that of its scheduled time."""
    project = await exporter.project()
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    schedule = await create_schedule(exporter, start, 6, session_id=str(project))

    await temporal_client.get_schedule_handle(names.export_schedule_id(schedule["id"])).backfill(
        ScheduleBackfill(
            start_at=start,
            end_at=start + timedelta(days=7, minutes=10),
            overlap=ScheduleOverlapPolicy.ALLOW_ALL,
        )
    )
    children = await wait_spawned(exporter, schedule["id"], 28)

    bounds = [start + timedelta(hours=6 * number) for number in range(29)]
    windows = [(moment(child["start_time"]), moment(child["end_time"])) for child in children]
    assert windows == list(itertools.pairwise(bounds))


async def test_a_window_that_was_skipped_is_exported_with_the_next(
    exporter: Exporter, temporal_client: Client
) -> None:
    """A paused schedule skips times; when it goes on, the windows between are not lost."""
    project = await exporter.project()
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    schedule = await create_schedule(exporter, start, 1, session_id=str(project))
    handle = temporal_client.get_schedule_handle(names.export_schedule_id(schedule["id"]))

    third = start + timedelta(hours=3, minutes=10)
    await handle.backfill(
        ScheduleBackfill(start_at=third, end_at=third, overlap=ScheduleOverlapPolicy.ALLOW_ALL)
    )
    children = await wait_spawned(exporter, schedule["id"], 3)

    assert [moment(child["start_time"]) for child in children] == [
        start + timedelta(hours=number) for number in range(3)
    ]


async def test_cancelling_a_schedule_leaves_spawned_exports_alone(
    exporter: Exporter, temporal_client: Client
) -> None:
    project = await exporter.project()
    start = datetime.now(UTC) - timedelta(hours=3, minutes=30)
    schedule = await create_schedule(exporter, start, 1, session_id=str(project))
    children = await wait_spawned(exporter, schedule["id"], 3)

    cancelled = await exporter.client.patch(f"{BASE}/{schedule['id']}", json={"status": "Cancelled"})

    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED")
    assert {child["status"] for child in await spawned(exporter, schedule["id"])} == {"COMPLETED"}
    assert len(children) == 3
    schedules = [item.id async for item in await temporal_client.list_schedules()]
    assert names.export_schedule_id(schedule["id"]) not in schedules


async def test_runs_of_a_schedule_are_listed_in_order_of_their_windows(exporter: Exporter) -> None:
    project = await exporter.project()
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=4)
    schedule = await create_schedule(exporter, start, 1, session_id=str(project))
    await wait_spawned(exporter, schedule["id"], 3)

    listed = await exporter.client.get(f"{BASE}/runs", params={"source_bulk_export_id": schedule["id"]})
    page = await exporter.client.get(
        f"{BASE}/runs", params={"source_bulk_export_id": schedule["id"], "limit": 1, "offset": 1}
    )

    starts = [run["start_time"] for run in listed.json()]
    assert starts == sorted(starts)
    assert len(starts) >= 3
    assert page.json() == [listed.json()[1]]
    assert (await exporter.client.get(f"{BASE}/runs")).status_code == 422
    unknown = await exporter.client.get(f"{BASE}/runs", params={"source_bulk_export_id": str(uuid4())})
    assert unknown.status_code == 404


async def test_a_schedule_with_too_many_past_windows_is_refused(exporter: Exporter) -> None:
    project = await exporter.project()
    answer = await exporter.client.post(
        BASE,
        json={
            "bulk_export_destination_id": await exporter.create_destination(),
            "session_id": str(project),
            "start_time": DAY.replace(year=1970).isoformat(),
            "interval_hours": 1,
        },
    )

    assert answer.status_code == 400
    assert "windows have passed" in answer.json()["detail"]
    assert (await exporter.client.get(BASE)).json() == []


async def test_a_schedule_that_fires_every_few_seconds_leaves_no_gap(
    exporter: Exporter, temporal_client: Client
) -> None:
    """The real server's clock, with windows far shorter than the API allows."""
    project = await exporter.project()
    start = datetime.now(UTC) + timedelta(seconds=1)
    schedule = await create_frequent_schedule(exporter, temporal_client, start, session_id=str(project))
    children = await wait_spawned(exporter, schedule["id"], 4, and_all=False)
    await exporter.client.patch(f"{BASE}/{schedule['id']}", json={})

    spans = [(moment(child["start_time"]), moment(child["end_time"])) for child in children]
    assert spans[0][0] == start
    assert all(upper - lower == timedelta(seconds=2) for lower, upper in spans)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))
    for child, (_, upper) in zip(children, spans, strict=True):
        assert moment(child["created_at"]) >= upper + timedelta(seconds=1)
