"""Ramps and autoscaling."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from activities.autoscale import AutoscaleActivities, needed_replicas
from storage.autoscaling import Load
from storage.database import Database
from tests.conftest import Workspace
from tests.control_plane.projects import ECHO, config, echo
from tests.control_plane.steps import ask, create, deploy, submit, wait_for_status
from workflows.messages.autoscale import Autoscale


def _load(pending: int, running: int = 0, replicas: int = 1, **spec: Any) -> Load:
    return Load(uuid4(), uuid4(), replicas, spec, None, pending, running)


@pytest.mark.parametrize(
    ("load", "needed"),
    [
        (_load(0, max_scale=5), 1),
        (_load(20, max_scale=5), 2),
        (_load(21, max_scale=5), 3),
        (_load(1_000, max_scale=5), 5),
        (_load(0, min_scale=2, max_scale=5), 2),
        (_load(0, min_scale=0, max_scale=5), 0),
        (_load(1, min_scale=0, max_scale=5), 1),
        (_load(0, running=11, max_scale=5), 2),
        (_load(50, min_scale=3), 3),
    ],
)
def test_workers_follow_the_runs_that_wait(load: Load, needed: int) -> None:
    assert needed_replicas(load, pending_per_worker=10, worker_slots=10) == needed


async def test_processes_are_added_and_taken_away_again(workspace: Workspace, database: Database) -> None:
    deployment = await create(
        workspace.client, source_config={"resource_spec": {"min_scale": 1, "max_scale": 2}}
    )
    revision_id = await deploy(workspace.client, deployment["id"], echo())

    async def replicas() -> tuple[int, int]:
        """Wanted, and observed by the listener."""
        async with database.connection() as connection:
            cursor = await connection.execute(
                "SELECT replicas, observed FROM worker_sets WHERE revision_id = %s", (revision_id,)
            )
            row = await cursor.fetchone()
        assert row is not None
        return row["replicas"], sum(1 for worker in row["observed"] if worker["pid"])

    async with database.connection() as connection:
        await connection.execute("UPDATE worker_sets SET replicas = 2 WHERE revision_id = %s", (revision_id,))
    await _until(replicas, (2, 2))
    autoscaler = AutoscaleActivities(database, 10)
    await autoscaler.autoscale(Autoscale())
    async with database.connection() as connection:
        long_ago = datetime.now(UTC) - timedelta(hours=1)
        await connection.execute(
            "UPDATE worker_sets SET surplus_since = %s WHERE revision_id = %s", (long_ago, revision_id)
        )
    await autoscaler.autoscale(Autoscale())
    await _until(replicas, (1, 1))
    assert await ask(workspace.client, deployment["name"]) == "one"


@pytest.mark.timeout(400)
async def test_a_ramp_whose_runs_fail_is_aborted_and_the_old_revision_keeps_all(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    good = await deploy(workspace.client, deployment["id"], echo("good"))
    bad = {
        "agent.py": ECHO.replace(
            'return {"messages"', 'raise ValueError("bad version")\n    return {"messages"'
        ),
        "langgraph.json": config(),
    }
    steps = {"steps": [{"percent": 50, "pause_seconds": 120}], "max_error_share": 0.2}
    revision_id = await submit(workspace.client, deployment["id"], bad, rollout=steps)
    sending = asyncio.create_task(_keep_asking(workspace.client, deployment["name"]))
    found = await wait_for_status(workspace.client, deployment["id"], revision_id, seconds=200)
    sending.cancel()
    assert found["status"] == "DEPLOY_FAILED" and "Ramp aborted at 50 %" in found["status_message"]
    now = (await workspace.client.get(f"/v2/deployments/{deployment['id']}")).json()
    assert now["active_revision_id"] == good
    for _ in range(8):
        assert await ask(workspace.client, deployment["name"]) == "good"


@pytest.mark.timeout(300)
async def test_a_good_ramp_ends_in_a_switch(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    await deploy(workspace.client, deployment["id"], echo("one"))
    steps = {"steps": [{"percent": 10, "pause_seconds": 1}, {"percent": 50, "pause_seconds": 1}]}
    await deploy(workspace.client, deployment["id"], echo("two"), rollout=steps)
    assert await ask(workspace.client, deployment["name"]) == "two"


async def _keep_asking(client: httpx.AsyncClient, name: str) -> None:
    body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]}}
    while True:
        thread = (await client.post(f"/deployments/{name}/threads", json={})).json()
        await client.post(f"/deployments/{name}/threads/{thread['thread_id']}/runs", json=body)
        await asyncio.sleep(0.3)


async def _until(look: Any, wanted: tuple[int, int], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while (found := await look()) != wanted:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.2)
