"""Cancelling, listing, and what is refused once an export has ended."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.exports.conftest import BASE, Exporter
from tests.exports.fault_proxy import Delay, fault_proxy
from tests.exports.seeding import DAY, add_runs
from tests.exports.waiting import until

END = DAY + timedelta(days=3)


@pytest.fixture
async def big(exporter: Exporter) -> AsyncIterator[dict[str, Any]]:
    """An export that takes some seconds, however fast the machine."""
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 3_000, step=timedelta(seconds=80))
    async with fault_proxy(exporter.stack.s3_endpoint_url) as proxy:
        proxy.rule = lambda request: Delay(2.0) if request.writes_data else None
        destination = await exporter.create_destination(config={"endpoint_url": proxy.url})
        created = await exporter.create(destination, DAY, END, session_id=str(project))
        yield created
        await exporter.client.patch(f"{BASE}/{created['id']}", json={})


async def test_a_cancelled_export_writes_no_more(exporter: Exporter, big: dict[str, Any]) -> None:
    await until(lambda: exporter.rows_written(big["id"]))

    answer = await exporter.client.patch(f"{BASE}/{big['id']}", json={"status": "Cancelled"})

    assert (answer.status_code, answer.json()["status"]) == (200, "CANCELLED")
    assert answer.json()["finished_at"] is not None
    await exporter.workflow_ended(big["id"])
    before = await exporter.keys()
    runs = (await exporter.client.get(f"{BASE}/{big['id']}/runs")).json()
    assert "CANCELLED" in {run["status"] for run in runs}
    assert {run["status"] for run in runs} <= {"CANCELLED", "COMPLETED"}
    assert not [key for key in before if key.startswith("manifests/")]
    assert await exporter.open_uploads() == []
    assert (await exporter.get(big["id"]))["status"] == "CANCELLED"


async def test_cancelling_twice_is_fine_and_an_empty_body_cancels(
    exporter: Exporter, big: dict[str, Any]
) -> None:
    for body in ({}, {"status": "CANCELLED"}):
        answer = await exporter.client.patch(f"{BASE}/{big['id']}", json=body)
        assert (answer.status_code, answer.json()["status"]) == (200, "CANCELLED")


async def test_an_export_that_has_ended_can_not_be_cancelled(exporter: Exporter) -> None:
    project = await exporter.project()
    created = await exporter.create(await exporter.create_destination(), DAY, END, session_id=str(project))
    await exporter.wait(created["id"])

    answer = await exporter.client.patch(f"{BASE}/{created['id']}", json={"status": "Cancelled"})

    assert answer.status_code == 409
    assert (await exporter.get(created["id"]))["status"] == "COMPLETED"


@pytest.mark.parametrize("body", [{"status": "COMPLETED"}, {"status": None}, {"interval_hours": 3}, []])
async def test_nothing_else_can_be_changed(exporter: Exporter, big: dict[str, Any], body: Any) -> None:
    answer = await exporter.client.patch(f"{BASE}/{big['id']}", json=body)

    assert answer.status_code == 422
    assert (await exporter.get(big["id"]))["status"] in ("CREATED", "RUNNING")


async def test_cancelling_what_is_not_there_is_404(exporter: Exporter) -> None:
    assert (await exporter.client.patch(f"{BASE}/{uuid4()}", json={})).status_code == 404


async def test_an_operator_may_cancel_in_the_temporal_ui(exporter: Exporter, big: dict[str, Any]) -> None:
    await until(lambda: exporter.rows_written(big["id"]))

    await (await exporter.workflow(big["id"])).cancel()

    assert (await exporter.wait(big["id"]))["status"] == "CANCELLED"
    assert await exporter.open_uploads() == []


async def test_exports_are_listed_newest_first_in_pages(exporter: Exporter) -> None:
    destination, project = await exporter.create_destination(), await exporter.project()
    created = [
        (await exporter.create(destination, DAY, END, session_id=str(project)))["id"] for _ in range(3)
    ]

    everything = (await exporter.client.get(BASE)).json()
    page = (await exporter.client.get(BASE, params={"limit": 1, "offset": 1})).json()

    assert [export["id"] for export in everything] == created[::-1]
    assert [export["id"] for export in page] == [created[1]]
    for params in ({"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": "x"}):
        assert (await exporter.client.get(BASE, params=params)).status_code == 422


async def test_runs_cover_the_window_exactly(exporter: Exporter) -> None:
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 50, step=timedelta(hours=1))
    start, end = DAY + timedelta(hours=5), END + timedelta(hours=7)
    created = await exporter.create(await exporter.create_destination(), start, end, session_id=str(project))
    await exporter.wait(created["id"])

    runs = (await exporter.client.get(f"{BASE}/{created['id']}/runs")).json()

    bounds = [run["metadata"]["start_time"] for run in runs] + [runs[-1]["metadata"]["end_time"]]
    assert bounds[0] == created["start_time"]
    assert bounds[-1] == created["end_time"]
    assert all(
        run["metadata"]["end_time"] == following for run, following in zip(runs, bounds[1:], strict=True)
    )
    assert [run["metadata"]["result"]["rows_written"] for run in runs] == [19, 24, 2, 0]
    assert {run["status"] for run in runs} == {"COMPLETED"}
    listed = [name for run in runs for name in run["metadata"]["result"]["exported_files"]]
    root = f"{exporter.stack.demo_bucket}/{exporter.prefix}/"
    stored = [root + key for key in await exporter.keys(f"export_id={created['id']}/")]
    assert sorted(listed) == sorted(stored)
    one = await exporter.client.get(f"{BASE}/{created['id']}/runs/{runs[1]['id']}")
    assert one.json() == runs[1]
    assert (await exporter.client.get(f"{BASE}/{created['id']}/runs/{uuid4()}")).status_code == 404
