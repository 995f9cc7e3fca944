"""What the listener puts right by itself, and what it leaves alone."""

from temporalio.client import Client

from tests.conftest import Workspace
from tests.control_plane.processes import wait_for_workers, workers_of
from tests.control_plane.projects import ECHO, config, echo
from tests.control_plane.steps import ask, create, deploy, submit, wait_for_status
from tests.exports.waiting import until
from workflows.messages import names

_HANGS = "import time\nwhile True:\n    time.sleep(1)\n"


async def test_workers_of_a_rollout_that_was_terminated_are_stopped(
    workspace: Workspace, temporal_client: Client
) -> None:
    client = workspace.client
    deployment = await create(client)
    good = await deploy(client, deployment["id"], echo("good"))
    serving = workers_of(good)
    hanging = await submit(client, deployment["id"], {"agent.py": _HANGS, "langgraph.json": config()})
    await wait_for_status(client, deployment["id"], hanging, ("DEPLOYING",))
    await wait_for_workers(hanging, lambda found: found != [])
    await temporal_client.get_workflow_handle(names.revision_workflow_id(hanging)).terminate("by an operator")
    found = await wait_for_status(client, deployment["id"], hanging)
    assert found["status"] == "DEPLOY_FAILED" and "ended by force" in found["status_message"]
    await wait_for_workers(hanging, lambda found: found == [])
    assert workers_of(good) == serving and await ask(client, deployment["name"]) == "good"


# Longer than any time that the listener gives of its own accord.
_SLOW = ECHO.replace("return {", "await __import__('asyncio').sleep(32)\n    return {").replace(
    "VERSION", "old"
)


async def test_a_run_in_flight_ends_on_the_revision_that_it_began_on(workspace: Workspace) -> None:
    """The listener looks every 5 s at what should run, and must not end a drain that is allowed to take longer."""
    client = workspace.client
    deployment = await create(client)
    old = await deploy(client, deployment["id"], {"agent.py": _SLOW, "langgraph.json": config()})
    thread = (await client.post(f"/deployments/{deployment['name']}/threads", json={})).json()["thread_id"]
    path = f"/deployments/{deployment['name']}/threads/{thread}"
    run = (
        await client.post(f"{path}/runs", json={"assistant_id": "agent", "input": {"messages": []}})
    ).json()

    async def is_at(status: str) -> bool:
        return bool((await client.get(f"{path}/runs/{run['run_id']}")).json()["status"] == status)

    await until(lambda: is_at("running"))
    await deploy(client, deployment["id"], echo("new"))
    await until(lambda: is_at("success"))
    values = (await client.get(f"{path}/state")).json()["values"]
    assert values["messages"][-1]["content"] == "old"
    await wait_for_workers(old, lambda found: found == [])
    assert await ask(client, deployment["name"]) == "new"
