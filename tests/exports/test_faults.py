"""The bucket fails while an export writes: the right status with the right reason, and nothing half done.

After each: no row twice, none missing where it completes, no multipart upload left open.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.exports.conftest import BASE, Exporter
from tests.exports.fault_proxy import (
    Accept,
    Delay,
    Drop,
    Fault,
    FaultProxy,
    Hold,
    Refuse,
    Request,
    fault_proxy,
)
from tests.exports.seeding import DAY, add_runs, stored_ids
from tests.exports.waiting import until

END = DAY + timedelta(days=1)
# Uncompressed about 90 MB: more than seven parts.
ROWS, WIDTH = 20_000, 4_000


@pytest.fixture
async def proxy(exporter: Exporter) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(exporter.stack.s3_endpoint_url) as proxy:
        yield proxy


class Large:
    """An export of one large file through the proxy."""

    def __init__(self, exporter: Exporter, proxy: FaultProxy, project: UUID) -> None:
        self.exporter = exporter
        self.proxy = proxy
        self.project = project

    async def start(self, **destination: Any) -> str:
        config = {"endpoint_url": self.proxy.url, **destination}
        created = await self.exporter.create(
            await self.exporter.create_destination(config=config),
            DAY,
            END,
            session_id=str(self.project),
            compression="none",
        )
        return str(created["id"])

    async def require_complete(self, export_id: str) -> None:
        ended = await self.exporter.wait(export_id, timeout_seconds=180)
        assert ended["status"] == "COMPLETED", ended
        expected = await stored_ids(self.exporter.database, self.project, DAY, END)
        assert await self.exporter.exported_ids(export_id) == expected
        assert await self.exporter.open_uploads() == []

    async def require_failed(self, export_id: str, reason: str) -> None:
        ended = await self.exporter.wait(export_id, timeout_seconds=180)
        assert ended["status"] == "FAILED", ended
        assert reason in ended["error"]
        runs = (await self.exporter.client.get(f"{BASE}/{export_id}/runs")).json()
        assert [run["status"] for run in runs] == ["FAILED"]
        assert reason in " ".join(runs[0]["errors"].values())
        assert not [key for key in await self.exporter.keys() if key.startswith("manifests/")]


@pytest.fixture
async def large(exporter: Exporter, proxy: FaultProxy) -> Large:
    project = await exporter.project()
    await add_runs(
        exporter.database, exporter.tenant_id, project, ROWS, step=timedelta(milliseconds=1), width=WIDTH
    )
    return Large(exporter, proxy, project)


def from_part(number: int, fault: Fault) -> Any:
    """The fault for each part from `number` on."""
    return lambda request: fault if (request.part_number or 0) >= number else None


async def test_an_endpoint_that_is_away_for_a_while_is_waited_for(large: Large) -> None:
    large.proxy.rule = from_part(3, Drop())
    export_id = await large.start()
    await until(lambda: _errors(large.exporter, export_id))
    running = await large.exporter.get(export_id)
    large.proxy.rule = lambda _: None

    assert running["status"] == "RUNNING"
    await large.require_complete(export_id)


async def _errors(exporter: Exporter, export_id: str) -> dict[str, str]:
    runs = (await exporter.client.get(f"{BASE}/{export_id}/runs")).json()
    return dict(runs[0]["errors"] or {}) if runs else {}


async def test_one_refused_part_is_sent_again(large: Large) -> None:
    refused: list[Request] = []

    def refuse_part_seven_once(request: Request) -> Fault:
        if request.part_number == 7 and not refused:
            refused.append(request)
            return Refuse(500, "InternalError")
        return None

    large.proxy.rule = refuse_part_seven_once
    export_id = await large.start()

    await large.require_complete(export_id)
    assert refused
    assert await _errors(large.exporter, export_id) == {}


async def test_a_part_that_is_refused_for_long_fails_the_attempt_not_the_export(large: Large) -> None:
    large.proxy.rule = lambda request: Refuse(503, "SlowDown") if request.part_number == 7 else None
    export_id = await large.start()
    errors = await until(lambda: _errors(large.exporter, export_id))
    large.proxy.rule = lambda _: None

    assert "503 SlowDown" in next(iter(errors.values()))
    await large.require_complete(export_id)


async def test_a_slow_endpoint_is_slow_and_nothing_else(large: Large) -> None:
    large.proxy.rule = lambda request: Delay(1.0) if request.writes_data else None
    export_id = await large.start()

    await large.require_complete(export_id)
    assert await _errors(large.exporter, export_id) == {}


REVOCATIONS = [
    ("InvalidAccessKeyId", "access key ID you provided does not exist"),
    ("AccessDenied", "Access denied"),
    ("ExpiredToken", "session token has expired"),
]


@pytest.mark.parametrize(("code", "reason"), REVOCATIONS)
async def test_revoked_credentials_end_the_export_at_once(large: Large, code: str, reason: str) -> None:
    large.proxy.rule = from_part(5, Refuse(403, code))
    export_id = await large.start()

    await large.require_failed(export_id, reason)
    assert await large.exporter.open_uploads() == []


async def test_credentials_rotated_while_a_file_is_written_are_those_of_later_runs(large: Large) -> None:
    """The file goes on with the old ones. The new ones are good for the check and the manifest only, by the proxy."""
    released = asyncio.Event()

    def rule(request: Request) -> Fault:
        if "/tmp/" in request.target or "/manifests/" in request.target:
            return Accept()
        return Hold(released) if (request.part_number or 0) >= 3 else None

    large.proxy.rule = rule
    export_id = await large.start()
    await until(lambda: _has_sent(large.proxy, 3))
    destination = (await large.exporter.get(export_id))["bulk_export_destination_id"]
    rotated = await large.exporter.client.patch(
        f"{BASE}/destinations/{destination}",
        json={"credentials": {"access_key_id": "rotated", "secret_access_key": "rotated"}},
    )
    released.set()

    assert rotated.status_code == 200, rotated.text
    await large.require_complete(export_id)
    assert await _errors(large.exporter, export_id) == {}
    later = await large.exporter.create(destination, DAY, END, session_id=str(large.project))
    ended = await large.exporter.wait(later["id"])
    assert ended["status"] == "FAILED", ended
    assert "access key ID you provided does not exist" in ended["error"]


async def test_a_bucket_that_is_deleted_ends_the_export_at_once(large: Large) -> None:
    bucket = f"doomed-{uuid4().hex[:12]}"
    s3 = large.exporter.s3
    await s3.create_bucket(Bucket=bucket)
    large.proxy.rule = lambda request: Delay(0.3) if request.writes_data else None
    export_id = await large.start(bucket_name=bucket)
    await until(lambda: _has_sent(large.proxy, 3))
    await s3.delete_bucket(Bucket=bucket)

    await large.require_failed(export_id, "bucket does not exist")


async def _has_sent(proxy: FaultProxy, part: int) -> bool:
    return any(request.part_number == part for request in proxy.requests)


async def test_a_project_deleted_meanwhile_ends_the_export_with_the_reason(large: Large) -> None:
    large.proxy.rule = lambda request: Delay(0.5) if request.writes_data else None
    export_id = await large.start()
    await until(lambda: _has_sent(large.proxy, 2))
    async with large.exporter.database.transaction() as connection:
        await connection.execute("UPDATE projects SET deleted_at = now() WHERE id = %s", (large.project,))

    await large.require_failed(export_id, "was deleted while it was exported")


async def test_runs_patched_while_they_are_exported_appear_once(large: Large) -> None:
    large.proxy.rule = lambda request: Delay(0.2) if request.writes_data else None
    export_id = await large.start()
    await until(lambda: _has_sent(large.proxy, 2))
    for _ in range(3):
        async with large.exporter.database.transaction() as connection:
            await connection.execute(
                "UPDATE trace_runs SET outputs = '{\"late\": true}', end_time = now() WHERE session_id = %s"
                " AND total_tokens %% 10 = 0",
                (large.project,),
            )
        await asyncio.sleep(0)

    await large.require_complete(export_id)


async def test_cancelling_while_a_file_is_uploaded_leaves_no_upload(large: Large) -> None:
    large.proxy.rule = lambda request: Delay(0.5) if request.writes_data else None
    export_id = await large.start()
    await until(lambda: _has_sent(large.proxy, 2))

    answer = await large.exporter.client.patch(f"{BASE}/{export_id}", json={})
    await large.exporter.workflow_ended(export_id)

    assert answer.json()["status"] == "CANCELLED"
    assert await large.exporter.open_uploads() == []
    assert await large.exporter.keys() == []
