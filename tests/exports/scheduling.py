"""Scheduled exports as tests need them: creating one, and what it has spawned."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client

from api.exports.gateway import ExportGateway
from api.gateway import TemporalGateway
from tests.exports.conftest import BASE, Exporter
from workflows.messages.export_schedule import ScheduledExport, Windows


async def create_schedule(exporter: Exporter, start: datetime, hours: int, **body: Any) -> dict[str, Any]:
    answer = await exporter.client.post(
        BASE,
        json={
            "bulk_export_destination_id": await exporter.create_destination(),
            "start_time": start.isoformat(),
            "interval_hours": hours,
            **body,
        },
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def create_frequent_schedule(
    exporter: Exporter, temporal: Client, start: datetime, **body: Any
) -> dict[str, Any]:
    """One of windows of 2 s, due 1 s after their end: far shorter than the API allows."""
    schedule = await create_schedule(exporter, datetime.now(UTC) + timedelta(days=30), 1, **body)
    gateway = ExportGateway(TemporalGateway(temporal))
    await gateway.delete_schedule(schedule["id"])
    windows = Windows(start.isoformat(), interval_seconds=2, delay_seconds=1)
    await gateway.create_schedule(
        ScheduledExport(str(exporter.tenant_id), schedule["id"], windows), "every two seconds"
    )
    return schedule


async def spawned(exporter: Exporter, schedule_id: str) -> list[dict[str, Any]]:
    """Exports of a schedule, in order of their windows."""
    exports = (await exporter.client.get(BASE)).json()
    children = [export for export in exports if export["source_bulk_export_id"] == schedule_id]
    return sorted(children, key=lambda export: str(export["start_time"]))


async def wait_spawned(
    exporter: Exporter, schedule_id: str, count: int, *, and_all: bool = True
) -> list[dict[str, Any]]:
    """Once `count` exports have been spawned and ended; `and_all` of those that were spawned since, too.

    Of a schedule that goes on, a slow machine never sees all ended.
    """
    deadline = time.monotonic() + 90
    while True:
        children = await spawned(exporter, schedule_id)
        awaited = children if and_all else children[:count]
        if len(children) >= count and all(child["finished_at"] for child in awaited):
            return children
        assert time.monotonic() < deadline, [(child["start_time"], child["status"]) for child in children]
        await asyncio.sleep(0.2)


def moment(text: str) -> datetime:
    """A time as the API writes it."""
    return datetime.fromisoformat(text)
