"""What creating an export refuses, and that a refusal stores nothing."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from storage.tenancy import create_key
from tests.conftest import Workspace
from tests.exports.conftest import BASE, Exporter
from tests.exports.seeding import DAY, make_project

START, END = DAY.isoformat(), (DAY + timedelta(days=1)).isoformat()


@pytest.fixture
async def valid(exporter: Exporter) -> dict[str, Any]:
    return {
        "bulk_export_destination_id": await exporter.create_destination(),
        "session_id": str(await exporter.project()),
        "start_time": START,
        "end_time": END,
    }


async def stored_exports(exporter: Exporter) -> int:
    async with exporter.database.connection() as connection:
        cursor = await connection.execute(
            "SELECT count(*) AS found FROM exports WHERE tenant_id = %s", (exporter.tenant_id,)
        )
        row = await cursor.fetchone()
    assert row is not None
    return int(row["found"])


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"session_id": None}, "exactly one of session_id and all_experiments"),
    ({"all_experiments": True}, "exactly one of session_id and all_experiments"),
    ({"end_time": None}, "needs an end_time"),
    ({"interval_hours": 6}, "must not have an end_time"),
    ({"end_time": START}, "must be later than start_time"),
    ({"start_time": END, "end_time": START}, "must be later than start_time"),
    ({"filter": "eq(is_root"}, "Invalid filter"),
    ({"filter": "nonsense"}, "Invalid filter"),
]


@pytest.mark.parametrize(("changes", "reason"), CONTRADICTIONS)
async def test_contradictions_are_refused(
    exporter: Exporter, valid: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    answer = await exporter.client.post(BASE, json=valid | changes)

    assert answer.status_code == 400, answer.text
    assert reason in answer.json()["detail"]
    assert await stored_exports(exporter) == 0


MALFORMED: list[dict[str, Any]] = [
    {"start_time": None},
    {"start_time": "yesterday"},
    {"start_time": 1_700_000_000},
    {"start_time": "1700000000"},
    {"start_time": "0001-01-01T00:00:00+14:00"},
    {"session_id": "not-a-uuid"},
    {"bulk_export_destination_id": "not-a-uuid"},
    {"bulk_export_destination_id": None},
    {"interval_hours": 0, "end_time": None},
    {"interval_hours": 169, "end_time": None},
    {"interval_hours": 1.5, "end_time": None},
    {"format_version": "v3"},
    {"format": "CSV"},
    {"compression": "lzma"},
    {"export_fields": []},
    {"export_fields": ["id", "no_such_field"]},
    {"export_fields": "id"},
    {"filter": "x" * 20_000},
    {"filter": "a\x00b"},
]


@pytest.mark.parametrize("changes", MALFORMED)
async def test_malformed_bodies_are_refused(
    exporter: Exporter, valid: dict[str, Any], changes: dict[str, Any]
) -> None:
    answer = await exporter.client.post(BASE, json=valid | changes)

    assert answer.status_code == 422, answer.text
    assert {"loc", "msg", "type"} <= set(answer.json()["detail"][0])
    assert await stored_exports(exporter) == 0


async def test_unknown_destinations_and_projects_are_404(exporter: Exporter, valid: dict[str, Any]) -> None:
    for field in ("bulk_export_destination_id", "session_id"):
        unknown = str(uuid4())
        answer = await exporter.client.post(BASE, json=valid | {field: unknown})
        assert answer.status_code == 404, answer.text
        assert unknown in answer.json()["detail"]
    assert await stored_exports(exporter) == 0


async def test_another_workspace_sees_nothing(
    exporter: Exporter, valid: dict[str, Any], other_workspace: Workspace
) -> None:
    created = (await exporter.client.post(BASE, json=valid)).json()
    theirs = other_workspace.client
    own_project = await make_project(exporter.database, other_workspace.tenant_id)

    assert (await theirs.get(f"{BASE}/{created['id']}")).status_code == 404
    assert (await theirs.get(f"{BASE}/destinations/{valid['bulk_export_destination_id']}")).status_code == 404
    assert (await theirs.get(f"{BASE}/destinations")).json() == []
    stolen_destination = await theirs.post(BASE, json=valid | {"session_id": str(own_project)})
    assert stolen_destination.status_code == 404
    destination = await theirs.post(f"{BASE}/destinations", json=exporter.destination_body())
    stolen_project = await theirs.post(
        BASE, json=valid | {"bulk_export_destination_id": destination.json()["id"]}
    )
    assert stolen_project.status_code == 404


@pytest.mark.parametrize(("plan", "status"), [("developer", 403), ("plus", 200), ("enterprise", 200)])
async def test_the_plan_must_include_exports(
    exporter: Exporter, valid: dict[str, Any], plan: str, status: int
) -> None:
    async with exporter.database.transaction() as connection:
        await connection.execute("UPDATE tenants SET plan = %s WHERE id = %s", (plan, exporter.tenant_id))
        key = await create_key(connection, exporter.tenant_id, "not looked up before")

    answer = await exporter.client.post(BASE, json=valid, headers={"X-Api-Key": key})

    assert answer.status_code == status, answer.text
    assert await stored_exports(exporter) == (1 if status == 200 else 0)


async def test_an_unknown_export_is_404_and_a_malformed_id_422(exporter: Exporter) -> None:
    assert (await exporter.client.get(f"{BASE}/{uuid4()}")).status_code == 404
    assert (await exporter.client.get(f"{BASE}/nope")).status_code == 422


async def test_a_key_is_needed(exporter: Exporter, valid: dict[str, Any]) -> None:
    missing = await exporter.client.post(BASE, json=valid, headers={"X-Api-Key": ""})
    wrong = await exporter.client.post(BASE, json=valid, headers={"X-Api-Key": "slw_wrong"})
    foreign = await exporter.client.post(BASE, json=valid, headers={"X-Tenant-Id": str(uuid4())})

    assert [missing.status_code, wrong.status_code, foreign.status_code] == [401, 401, 403]
    assert await stored_exports(exporter) == 0
