"""Crons with the unmodified SDK, on real schedules (agent server contract §3.6)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError
from temporalio.client import Client
from temporalio.service import RPCError

from activities.cron import CronActivities
from settings import Settings
from storage.assistants import system_assistant_id
from storage.database import Database
from storage.runs import Runs
from tests.agent_server.bare_deployment import BareDeployment, bare_deployment
from tests.conftest import Workspace
from workflows.messages.cron import CronInput, FireCron

GRAPH = "agent"
EVERY_SECOND = "* * * * * *"
YEARLY = "0 0 1 1 *"


@pytest.fixture
async def deployment(database: Database, workspace: Workspace) -> AsyncIterator[BareDeployment]:
    async with bare_deployment(database, workspace, [GRAPH]) as deployment:
        yield deployment


async def eventually(check: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> Any:
    """The first true answer of `check`; fails at the deadline."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        if found := await check():
            return found
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.05)


async def test_a_new_cron_has_every_field(deployment: BareDeployment) -> None:
    cron: dict[str, Any] = await deployment.sdk.crons.create(  # type: ignore[assignment]
        GRAPH,
        schedule="30 9 * * mon-fri",
        timezone="America/New_York",
        input={"question": "?"},
        metadata={"team": "a"},
        config={"tags": ["t"]},
        end_time=datetime(2099, 1, 1, tzinfo=UTC),
        on_run_completed="keep",
    )
    assert cron["assistant_id"] == str(system_assistant_id(GRAPH))
    assert cron["payload"]["config"]["configurable"]["cron_id"] == cron["cron_id"]
    assert cron["payload"]["input"] == {"question": "?"}
    assert (cron["thread_id"], cron["user_id"], cron["enabled"]) == (None, None, True)
    assert (cron["on_run_completed"], cron["metadata"]) == ("keep", {"team": "a"})
    assert datetime.fromisoformat(cron["end_time"]) == datetime(2099, 1, 1, tzinfo=UTC)
    due = datetime.fromisoformat(cron["next_run_date"])
    assert due > datetime.now(UTC) and due.hour in (13, 14) and due.minute == 30, "half past nine in New York"


async def test_each_firing_creates_one_stateless_run(deployment: BareDeployment, database: Database) -> None:
    cron = await deployment.sdk.crons.create(
        GRAPH, schedule=EVERY_SECOND, input={"n": 1}, metadata={"team": "a"}, on_run_completed="keep"
    )
    cron_id = str(cron["cron_id"])  # type: ignore[typeddict-item]

    async def three_firings() -> list[dict[str, Any]]:
        firings = await _firings(database, cron_id)
        return firings if len(firings) >= 3 else []

    firings = await eventually(three_firings)
    await deployment.sdk.crons.delete(cron_id)
    seconds = [firing["scheduled_at"].timestamp() for firing in firings]
    assert all(second == int(second) for second in seconds), "fired at whole seconds"
    assert all(later - earlier == 1 for earlier, later in itertools.pairwise(seconds))
    thread = await deployment.sdk.threads.get(str(firings[0]["thread_id"]))
    assert thread["metadata"]["team"] == "a"  # type: ignore[index]
    run = await deployment.sdk.runs.get(str(firings[0]["thread_id"]), str(firings[0]["run_id"]))
    assert run["kwargs"]["input"] == {"n": 1}  # type: ignore[typeddict-item]
    assert run["kwargs"]["config"]["configurable"]["cron_id"] == cron_id  # type: ignore[typeddict-item]


async def test_a_repeated_firing_creates_no_second_run(
    deployment: BareDeployment, database: Database, temporal_client: Client
) -> None:
    thread_id = (await deployment.sdk.threads.create())["thread_id"]
    cron = await deployment.sdk.crons.create_for_thread(thread_id, GRAPH, schedule=YEARLY)
    activities = CronActivities(database, temporal_client, Settings())
    request = FireCron(
        CronInput(
            str(deployment.scope.tenant_id),
            str(deployment.scope.deployment_id),
            str(cron["cron_id"]),  # type: ignore[typeddict-item]
        ),
        "2026-01-01T00:00:00+00:00",
    )
    results = await asyncio.gather(*(activities.fire(request) for _ in range(5)))
    assert len({result.run_id for result in results}) == 1 and results[0].run_id
    async with database.connection() as connection:
        rows = await Runs(connection, deployment.scope).page(UUID(thread_id), None, 10, 0)
    assert [str(row["run_id"]) for row in rows] == [results[0].run_id]
    assert "cron_id" not in rows[0]["metadata"]


async def test_a_thread_crons_reject_skips_while_the_thread_is_busy(
    deployment: BareDeployment, database: Database, temporal_client: Client
) -> None:
    thread_id = (await deployment.sdk.threads.create())["thread_id"]
    cron = await deployment.sdk.crons.create_for_thread(
        thread_id, GRAPH, schedule=YEARLY, multitask_strategy="reject"
    )
    activities = CronActivities(database, temporal_client, Settings())
    cron_input = CronInput(
        str(deployment.scope.tenant_id),
        str(deployment.scope.deployment_id),
        str(cron["cron_id"]),  # type: ignore[typeddict-item]
    )
    first = await activities.fire(FireCron(cron_input, "2026-01-01T00:00:00+00:00"))
    second = await activities.fire(FireCron(cron_input, "2026-01-01T00:00:01+00:00"))
    assert first.run_id and second.run_id is None and "busy" in str(second.skipped)


async def test_a_disabled_cron_rests_until_it_is_enabled(
    deployment: BareDeployment, database: Database
) -> None:
    cron = await deployment.sdk.crons.create(GRAPH, schedule=EVERY_SECOND, enabled=False)
    cron_id = str(cron["cron_id"])  # type: ignore[typeddict-item]
    assert cron["next_run_date"] is None  # type: ignore[typeddict-item]
    assert await _firings(database, cron_id) == []
    updated = await deployment.sdk.crons.update(cron_id, enabled=True)
    assert updated["next_run_date"]
    await eventually(lambda: _firings(database, cron_id))
    await deployment.sdk.crons.update(cron_id, enabled=False)
    stopped = len(await _firings(database, cron_id))
    assert len(await _firings(database, cron_id)) <= stopped + 1


async def test_changes_reach_row_and_schedule(deployment: BareDeployment, temporal_client: Client) -> None:
    end = datetime.now(UTC) + timedelta(days=2)
    cron = await deployment.sdk.crons.create(
        GRAPH, schedule=YEARLY, end_time=end, input={"a": 1}, config={"tags": ["x"]}
    )
    cron_id = str(cron["cron_id"])  # type: ignore[typeddict-item]
    updated = await deployment.sdk.crons.update(
        cron_id, schedule="15 4 * * *", timezone="Europe/Berlin", end_time=None, input={"a": 2}
    )
    assert (updated["schedule"], updated["timezone"], updated["end_time"]) == (
        "15 4 * * *",
        "Europe/Berlin",
        None,
    )
    assert updated["payload"]["input"] == {"a": 2}
    assert updated["payload"]["config"] == {"tags": ["x"], "configurable": {"cron_id": cron_id}}
    description = await temporal_client.get_schedule_handle(f"cron/{cron_id}").describe()
    assert description.schedule.spec.time_zone_name == "Europe/Berlin"
    assert description.schedule.spec.end_at is None
    assert description.info.next_action_times[0].isoformat().replace("+00:00", "") in str(
        updated["next_run_date"]
    )


async def test_a_deleted_cron_leaves_no_schedule(deployment: BareDeployment, temporal_client: Client) -> None:
    cron = await deployment.sdk.crons.create(GRAPH, schedule=YEARLY)
    cron_id = str(cron["cron_id"])  # type: ignore[typeddict-item]
    await deployment.sdk.crons.delete(cron_id)
    with pytest.raises(RPCError, match="not found"):
        await temporal_client.get_schedule_handle(f"cron/{cron_id}").describe()
    with pytest.raises(NotFoundError):
        await deployment.sdk.crons.delete(cron_id)


async def test_a_cron_goes_with_its_thread(
    deployment: BareDeployment, database: Database, temporal_client: Client
) -> None:
    thread_id = (await deployment.sdk.threads.create())["thread_id"]
    cron = await deployment.sdk.crons.create_for_thread(thread_id, GRAPH, schedule=EVERY_SECOND)
    cron_id = str(cron["cron_id"])  # type: ignore[typeddict-item]
    async with database.connection() as connection:
        await connection.execute("DELETE FROM threads WHERE thread_id = %s", (thread_id,))

    async def schedule_is_gone() -> bool:
        try:
            await temporal_client.get_schedule_handle(f"cron/{cron_id}").describe()
        except RPCError:
            return True
        return False

    assert await deployment.sdk.crons.count() == 0
    await eventually(schedule_is_gone, 40.0)


async def test_search_filters_sorts_and_selects(deployment: BareDeployment) -> None:
    thread_id = (await deployment.sdk.threads.create())["thread_id"]
    for hour in range(3):
        await deployment.sdk.crons.create(GRAPH, schedule=f"0 {hour} * * *", metadata={"hour": hour})
    await deployment.sdk.crons.create_for_thread(thread_id, GRAPH, schedule=YEARLY, enabled=False)
    assert await deployment.sdk.crons.count() == 4
    assert await deployment.sdk.crons.count(thread_id=thread_id) == 1
    assert [found["metadata"] for found in await deployment.sdk.crons.search(metadata={"hour": 1})] == [
        {"hour": 1}
    ]
    assert [found["thread_id"] for found in await deployment.sdk.crons.search(enabled=False)] == [thread_id]
    page = await deployment.sdk.crons.search(
        limit=2, sort_by="created_at", sort_order="asc", select=["schedule"]
    )
    assert page == [{"schedule": "0 0 * * *"}, {"schedule": "0 1 * * *"}]
    assert len(await deployment.sdk.crons.search(assistant_id=str(system_assistant_id(GRAPH)))) == 4
    assert await deployment.sdk.crons.search(assistant_id=str(uuid4())) == []


@pytest.mark.parametrize(
    ("changes", "status", "named"),
    [
        ({"schedule": None}, 422, "schedule"),
        ({"schedule": "61 * * * *"}, 422, "schedule"),
        ({"schedule": "* * * *"}, 422, "schedule"),
        ({"schedule": "0 0 30 2 *"}, 422, "never"),
        ({"schedule": "0 0 L * *"}, 422, "not supported"),
        ({"timezone": "Mars/Olympus"}, 422, "timezone"),
        ({"assistant_id": None}, 422, "assistant_id"),
        ({"assistant_id": "nobody"}, 422, "nobody"),
        ({"assistant_id": str(uuid4())}, 404, "not found"),
        ({"config": {"configurable": {"a": 1}}, "context": {"b": 1}}, 400, "context"),
        ({"on_run_completed": "burn"}, 422, "on_run_completed"),
    ],
)
async def test_bad_crons_are_refused_and_leave_nothing(
    deployment: BareDeployment, workspace: Workspace, changes: dict[str, Any], status: int, named: str
) -> None:
    body = {"assistant_id": GRAPH, "schedule": YEARLY, **changes}
    body = {name: value for name, value in body.items() if value is not None}
    response = await workspace.client.post(f"{deployment.url}/runs/crons", json=body)
    assert response.status_code == status and named in response.json()["detail"]
    assert await deployment.sdk.crons.count() == 0


async def test_an_end_in_the_past_and_seconds_are_accepted(deployment: BareDeployment) -> None:
    ended = await deployment.sdk.crons.create(
        GRAPH, schedule=EVERY_SECOND, end_time=datetime(2020, 1, 1, tzinfo=UTC)
    )
    assert ended["next_run_date"] is None  # type: ignore[typeddict-item]


async def test_an_empty_patch_is_refused(deployment: BareDeployment, workspace: Workspace) -> None:
    cron = await deployment.sdk.crons.create(GRAPH, schedule=YEARLY)
    url = f"{deployment.url}/runs/crons/{cron['cron_id']}"  # type: ignore[typeddict-item]
    response = await workspace.client.patch(url, json={})
    assert (response.status_code, response.json()["detail"]) == (400, "Request body cannot be empty")
    bad = await workspace.client.patch(url, json={"schedule": "x"})
    assert bad.status_code == 422
    assert (await workspace.client.get(url)).json()["schedule"] == YEARLY


async def test_unknown_thread_and_cron_are_not_found(deployment: BareDeployment) -> None:
    with pytest.raises(NotFoundError):
        await deployment.sdk.crons.create_for_thread(str(uuid4()), GRAPH, schedule=YEARLY)
    with pytest.raises(NotFoundError):
        await deployment.sdk.crons.update(str(uuid4()), enabled=False)
    with pytest.raises(UnprocessableEntityError):
        await deployment.sdk.crons.delete("not-a-uuid")


async def test_another_workspaces_cron_is_not_found(
    deployment: BareDeployment, other_workspace: Workspace, database: Database
) -> None:
    cron = await deployment.sdk.crons.create(GRAPH, schedule=YEARLY)
    async with bare_deployment(database, other_workspace, [GRAPH]) as other:
        with pytest.raises(NotFoundError):
            await other.sdk.crons.delete(str(cron["cron_id"]))  # type: ignore[typeddict-item]
        assert await other.sdk.crons.count() == 0
    async with httpx.AsyncClient(headers={"X-Api-Key": other_workspace.api_key}) as stranger:
        answer = await stranger.post(f"{deployment.url}/runs/crons/count", json={})
    assert answer.status_code == 404


async def _firings(database: Database, cron_id: str) -> list[dict[str, Any]]:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT * FROM cron_firings WHERE cron_id = %s ORDER BY scheduled_at", (cron_id,)
        )
        return await cursor.fetchall()
