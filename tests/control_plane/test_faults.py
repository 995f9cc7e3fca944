"""Rollouts while parts of the platform die: the rollout goes on, nothing is lost, nothing is left behind.

On the stack whose servers may be killed, which has short limits.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from storage.database import Database
from tests.conftest import Workspace, new_workspace
from tests.control_plane.processes import wait_for_workers, workers_of
from tests.control_plane.projects import config, echo
from tests.control_plane.steps import (
    ask,
    create,
    deploy,
    submit,
    unique,
    wait_for_status,
)
from tests.stacks import Stack

_SLOW_IMPORT = "import time\ntime.sleep(3)\n"


@pytest.fixture
async def own_workspace(killable_stack: Stack) -> AsyncIterator[Workspace]:
    async with (
        Database(killable_stack.database_url, 5) as database,
        new_workspace(killable_stack, database) as workspace,
    ):
        yield workspace


@pytest.mark.timeout(400)
@pytest.mark.parametrize("moment", ["CREATING", "BUILDING", "DEPLOYING"])
async def test_a_rollout_survives_the_death_of_its_hands(
    killable_stack: Stack, own_workspace: Workspace, moment: str
) -> None:
    client = own_workspace.client
    deployment = await create(client)
    files = {**echo("survived"), "agent.py": _SLOW_IMPORT + echo("survived")["agent.py"]}
    revision_id = await submit(client, deployment["id"], files)
    reached = ("BUILDING", "AWAITING_DEPLOY", "DEPLOYING") if moment == "BUILDING" else (moment,)
    if moment != "CREATING":
        await wait_for_status(client, deployment["id"], revision_id, reached)
    killed = {name: killable_stack.kill(name) for name in ("worker-listener", "worker-platform")}
    found = await wait_for_status(client, deployment["id"], revision_id, seconds=180)
    assert found["status"] == "DEPLOYED", found
    for name, pid in killed.items():
        await asyncio.to_thread(killable_stack.wait_restarted, name, pid)
    assert await ask(client, deployment["name"]) == "survived"
    assert len(workers_of(revision_id)) == 1
    await client.delete(f"/v2/deployments/{deployment['id']}")


@pytest.mark.timeout(300)
async def test_a_project_that_hangs_on_import_fails_in_bounded_time(own_workspace: Workspace) -> None:
    client = own_workspace.client
    deployment = await create(client)
    good = await deploy(client, deployment["id"], echo("good"))
    files = {"agent.py": "import time\nwhile True: time.sleep(1)\n", "langgraph.json": config()}
    revision_id = await submit(client, deployment["id"], files)
    found = await wait_for_status(client, deployment["id"], revision_id, seconds=90)
    assert found["status"] == "DEPLOY_FAILED" and "within 45 s" in found["status_message"]
    now = (await client.get(f"/v2/deployments/{deployment['id']}")).json()
    assert now["active_revision_id"] == good and await ask(client, deployment["name"]) == "good"
    await client.delete(f"/v2/deployments/{deployment['id']}")


@pytest.mark.timeout(300)
async def test_a_killed_worker_is_started_again_and_none_outlives_the_listener(
    killable_stack: Stack, own_workspace: Workspace
) -> None:
    client = own_workspace.client
    deployment = await create(client)
    revision_id = await deploy(client, deployment["id"], echo("again"))
    [worker] = workers_of(revision_id)
    os.kill(worker, signal.SIGKILL)
    await wait_for_workers(revision_id, lambda found: found not in ([], [worker]))
    assert await ask(client, deployment["name"]) == "again"
    [worker] = workers_of(revision_id)
    await asyncio.to_thread(killable_stack.stop, "worker-listener")
    await wait_for_workers(revision_id, lambda found: found == [])
    await asyncio.to_thread(killable_stack.start, "worker-listener")
    assert await ask(client, deployment["name"]) == "again"
    await client.delete(f"/v2/deployments/{deployment['id']}")
    await wait_for_workers(revision_id, lambda found: found == [])


@pytest.mark.timeout(600)
async def test_500_runs_through_a_rollout_a_rollback_and_a_kill(
    killable_stack: Stack, own_workspace: Workspace
) -> None:
    client = own_workspace.client
    name = unique("busy")
    deployment = await create(client, name)
    first = await deploy(client, deployment["id"], echo("one"))
    threads = [
        (await client.post(f"/deployments/{name}/threads", json={})).json()["thread_id"] for _ in range(50)
    ]
    sent: dict[str, list[str]] = {thread: [] for thread in threads}

    async def send(number: int) -> None:
        thread = threads[number % len(threads)]
        body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": f"q{number}"}]}}
        reply = await client.post(f"/deployments/{name}/threads/{thread}/runs", json=body)
        assert reply.status_code == 200, reply.text
        sent[thread].append(reply.json()["run_id"])

    async def send_all() -> None:
        for number in range(500):
            await send(number)
            await asyncio.sleep(0.02)

    sending = asyncio.create_task(send_all())
    second = await deploy(client, deployment["id"], echo("two"))
    await client.post(f"/v2/deployments/{deployment['id']}/revisions/{first}/redeploy")
    await _active(client, deployment["id"], first)
    for worker in workers_of(second):
        os.kill(worker, signal.SIGKILL)
    await sending
    statuses, revisions = await _finished(killable_stack, deployment["id"], 500)
    assert statuses == {"success": 500} and revisions <= {first, second}
    for thread, _ in sent.items():
        state = (await client.get(f"/deployments/{name}/threads/{thread}/state")).json()
        contents = [message["content"] for message in state["values"]["messages"]]
        questions = [text for text in contents if text.startswith("q")]
        assert questions == sorted(questions, key=lambda text: int(text[1:])) and len(questions) == 10
        assert len(contents) == 20
    await client.delete(f"/v2/deployments/{deployment['id']}")


async def _active(client: httpx.AsyncClient, deployment_id: str, revision_id: str) -> None:
    deadline = time.monotonic() + 60
    while (await client.get(f"/v2/deployments/{deployment_id}")).json()["active_revision_id"] != revision_id:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def _finished(stack: Stack, deployment_id: str, count: int) -> tuple[dict[str, int], set[str]]:
    """Statuses of all runs of a deployment once none waits, and the revisions that ran them."""
    deadline = time.monotonic() + 240
    async with Database(stack.database_url, 2) as database:
        while True:
            async with database.connection() as connection:
                cursor = await connection.execute(
                    "SELECT status, revision_id::text, count(*) AS count FROM runs WHERE deployment_id = %s"
                    " GROUP BY 1, 2",
                    (deployment_id,),
                )
                rows = await cursor.fetchall()
            statuses: dict[str, int] = {}
            for row in rows:
                statuses[row["status"]] = statuses.get(row["status"], 0) + row["count"]
            if sum(statuses.values()) == count and not statuses.keys() & {"pending", "running"}:
                return statuses, {row["revision_id"] for row in rows}
            assert time.monotonic() < deadline, statuses
            await asyncio.sleep(0.5)
