"""Limits of a workspace are exact, however many clients ask at once (mission document, Limits)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.export import ExportActivities
from activities.export_schedule import ExportScheduleActivities
from api.app import create_app, open_services
from settings import CONNECTIONS_FILE, Settings
from storage.secrets import load_secret_box
from tests.exports.conftest import BASE, Exporter
from tests.exports.seeding import DAY
from tests.exports.test_experiments import experiment
from workflows.messages.export import ExportRef
from workflows.messages.export_schedule import ScheduledExport, SpawnExport, Windows

Limited = Callable[..., Any]


@pytest.fixture
async def limited(exporter: Exporter) -> AsyncIterator[Limited]:
    """Clients of APIs of this process with limits of their own, on the shared stack's servers."""
    async with AsyncExitStack() as stack:

        async def opened(**limits: int) -> httpx.AsyncClient:
            settings = Settings(
                _env_file=exporter.stack.home / CONNECTIONS_FILE, home=exporter.stack.home, **limits
            )
            app = create_app(settings)
            app.state.services = await stack.enter_async_context(open_services(settings))
            return await stack.enter_async_context(
                httpx.AsyncClient(
                    transport=httpx.ASGITransport(app),
                    base_url="http://api",
                    headers={"X-Api-Key": exporter.workspace.api_key},
                    timeout=60,
                )
            )

        yield opened


async def body(exporter: Exporter, **changes: Any) -> dict[str, Any]:
    given = {
        "bulk_export_destination_id": await exporter.create_destination(),
        "session_id": str(await exporter.project()),
        "start_time": DAY.isoformat(),
        "end_time": (DAY + timedelta(days=1)).isoformat(),
        **changes,
    }
    return {name: value for name, value in given.items() if value is not None}


async def test_creations_within_an_hour_are_limited_exactly(exporter: Exporter, limited: Limited) -> None:
    clients = [await limited(export_creations_per_hour=5) for _ in range(2)]
    wanted = await body(exporter)

    answers = await asyncio.gather(*(clients[n % 2].post(BASE, json=wanted) for n in range(20)))

    assert Counter(answer.status_code for answer in answers) == {200: 5, 429: 15}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert "5 exports" in refused.json()["detail"]
    assert len((await exporter.client.get(BASE)).json()) == 5


async def test_creations_older_than_an_hour_do_not_count(exporter: Exporter, limited: Limited) -> None:
    client = await limited(export_creations_per_hour=1)
    wanted = await body(exporter)
    first = await client.post(BASE, json=wanted)
    async with exporter.database.transaction() as connection:
        await connection.execute(
            "UPDATE exports SET created_at = now() - interval '61 minutes' WHERE id = %s",
            (first.json()["id"],),
        )

    assert [(await client.post(BASE, json=wanted)).status_code for _ in range(2)] == [200, 429]


async def test_active_schedules_are_limited_exactly(exporter: Exporter, limited: Limited) -> None:
    client = await limited(export_active_schedules=2)
    start = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    wanted = await body(exporter, end_time=None, interval_hours=1, start_time=start)

    answers = await asyncio.gather(*(client.post(BASE, json=wanted) for _ in range(6)))
    assert Counter(answer.status_code for answer in answers) == {200: 2, 429: 4}

    one_time = await client.post(BASE, json=await body(exporter))
    assert one_time.status_code == 200, "one-time exports are exempt"
    kept = next(answer.json()["id"] for answer in answers if answer.status_code == 200)
    assert (await client.patch(f"{BASE}/{kept}", json={})).status_code == 200
    assert (await client.post(BASE, json=wanted)).status_code == 200, "a cancelled one no longer counts"


async def test_a_spawned_export_counts_and_waits_for_the_limit(
    exporter: Exporter, temporal_client: Client
) -> None:
    start = datetime.now(UTC) + timedelta(days=1)
    created = await exporter.client.post(
        BASE, json=await body(exporter, end_time=None, interval_hours=1, start_time=start.isoformat())
    )
    scheduled = ScheduledExport(
        str(exporter.tenant_id), created.json()["id"], Windows(start.isoformat(), 3600)
    )
    activities = ExportScheduleActivities(exporter.database, temporal_client, creations_per_hour=3)

    spawned = [await activities.spawn(SpawnExport(scheduled, window)) for window in (0, 1, 1)]
    with pytest.raises(ApplicationError, match="3 exports"):
        await activities.spawn(SpawnExport(scheduled, 2))

    assert spawned[1] == spawned[2]
    assert len((await exporter.client.get(BASE)).json()) == 3


async def test_experiments_per_export_are_limited(exporter: Exporter) -> None:
    for number in range(3):
        await experiment(exporter, f"experiment {number}")
    created = await exporter.create(
        await exporter.create_destination(), DAY, DAY + timedelta(days=1), all_experiments=True
    )
    await exporter.wait(created["id"])
    ref = ExportRef(str(exporter.tenant_id), created["id"])
    plans = {}
    for limit in (2, 3):
        activities = ExportActivities(
            exporter.database,
            load_secret_box(None, exporter.stack.home),
            allow_private_endpoints=True,
            max_experiments=limit,
        )
        plans[limit] = (await activities.plan(ref)).failure

    assert plans[3] is None
    assert plans[2] is not None
    assert "more than 2 experiments" in plans[2]
