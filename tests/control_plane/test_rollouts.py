"""Rollouts on real servers: what is built, started, switched, refused and left serving."""

import pytest

from tests.conftest import Workspace
from tests.control_plane.projects import ECHO, config, echo
from tests.control_plane.steps import (
    ask,
    create,
    deploy,
    logged,
    logs,
    revision,
    submit,
    unique,
    wait_for_status,
)
from tests.exports.waiting import until


async def test_a_project_is_built_deployed_and_answers(workspace: Workspace) -> None:
    deployment = await create(workspace.client, unique("agent"))
    revision_id = await deploy(workspace.client, deployment["id"], echo())
    # The first revision waited for the upload: it is the one that creation announced.
    assert revision_id == deployment["latest_revision_id"]
    now = (await workspace.client.get(f"/v2/deployments/{deployment['id']}")).json()
    assert now["status"] == "READY" and now["active_revision_id"] == revision_id
    assert await ask(workspace.client, deployment["name"]) == "one"
    assert "Build finished." in await logs(workspace.client, deployment["id"], revision_id, "build")
    await logged(workspace.client, deployment["id"], revision_id, "deploy", "project_loaded")


async def test_a_warm_rollout_reuses_the_environment_and_a_rollback_needs_no_build(
    workspace: Workspace,
) -> None:
    deployment = await create(workspace.client)
    name, deployment_id = deployment["name"], deployment["id"]
    first = await deploy(workspace.client, deployment_id, echo("one"))
    second = await deploy(workspace.client, deployment_id, echo("two"))
    assert await ask(workspace.client, name) == "two"
    assert "Reusing the environment" in await logs(workspace.client, deployment_id, second, "build")
    built = await logs(workspace.client, deployment_id, first, "build")
    path = f"/v2/deployments/{deployment_id}"
    reply = await workspace.client.post(f"{path}/revisions/{first}/redeploy")
    assert reply.status_code == 200 and reply.json()["latest_revision_id"] == second
    await until(lambda: _is_active(workspace, deployment_id, first))
    assert await ask(workspace.client, name) == "one"
    assert await logs(workspace.client, deployment_id, first, "build") == built, "a rollback builds nothing"


async def test_a_redeploy_is_probed_by_its_new_workers_alone(workspace: Workspace) -> None:
    """Those that serve the same revision already would answer at once, and hide that the new ones cannot start."""
    second_start_fails = """
import pathlib, time
note = pathlib.Path(__file__).with_name("started")
if note.exists():
    time.sleep(2)
    raise RuntimeError("started once already")
note.touch()
"""
    files = {"agent.py": second_start_fails + ECHO, "langgraph.json": config()}
    deployment = await create(workspace.client)
    deployment_id = deployment["id"]
    revision_id = await deploy(workspace.client, deployment_id, files)
    path = f"/v2/deployments/{deployment_id}/revisions/{revision_id}"
    assert (await workspace.client.post(f"{path}/redeploy")).status_code == 200
    found = await wait_for_status(workspace.client, deployment_id, revision_id, ("DEPLOY_FAILED",))
    assert "started once already" in found["status_message"]
    assert await _is_active(workspace, deployment_id, revision_id)
    assert await ask(workspace.client, deployment["name"]) == "VERSION", "the workers before it serve on"


async def _is_active(workspace: Workspace, deployment_id: str, revision_id: str) -> bool:
    deployment = (await workspace.client.get(f"/v2/deployments/{deployment_id}")).json()
    return bool(deployment["active_revision_id"] == revision_id)


@pytest.mark.parametrize(
    ("files", "status", "reason"),
    [
        (
            {"agent.py": "import nowhere_to_be_found", "langgraph.json": config()},
            "DEPLOY_FAILED",
            "nowhere_to_be",
        ),
        ({"agent.py": "graph = 1/0", "langgraph.json": config()}, "DEPLOY_FAILED", "ZeroDivisionError"),
        ({"agent.py": "import sys; sys.exit(3)", "langgraph.json": config()}, "DEPLOY_FAILED", "SystemExit"),
        (
            {"agent.py": "import os; os._exit(3)", "langgraph.json": config()},
            "DEPLOY_FAILED",
            "ended 3 times",
        ),
        ({"agent.py": "other = 1", "langgraph.json": config()}, "DEPLOY_FAILED", "graph"),
        ({"agent.py": ECHO}, "BUILD_FAILED", "langgraph.json is not in the project"),
        ({"langgraph.json": "{"}, "BUILD_FAILED", "not JSON"),
        ({"langgraph.json": config(dockerfile_lines=["RUN x"])}, "BUILD_FAILED", "`dockerfile_lines`"),
        ({"langgraph.json": config(node_version="20")}, "BUILD_FAILED", "`node_version`"),
        ({"langgraph.json": config(surprise=1)}, "BUILD_FAILED", "`surprise`"),
        ({"langgraph.json": config(dependencies=["../.."])}, "BUILD_FAILED", "outside of the project"),
        ({"langgraph.json": config(dependencies=["./nowhere"])}, "BUILD_FAILED", "no folder './nowhere'"),
        (
            {**echo(), "requirements.txt": "slipway-no-such-package-anywhere==1.0"},
            "BUILD_FAILED",
            "slipway-no-such-package-anywhere",
        ),
    ],
)
async def test_a_failed_revision_says_why_and_the_one_before_serves_on(
    workspace: Workspace, files: dict[str, str], status: str, reason: str
) -> None:
    deployment = await create(workspace.client)
    good = await deploy(workspace.client, deployment["id"], echo("good"))
    bad = await submit(workspace.client, deployment["id"], files)
    found = await wait_for_status(workspace.client, deployment["id"], bad)
    assert found["status"] == status and reason in found["status_message"], found
    kind = "build" if status == "BUILD_FAILED" else "deploy"
    if "ended 3 times" not in reason:
        await logged(workspace.client, deployment["id"], bad, kind, reason)
    now = (await workspace.client.get(f"/v2/deployments/{deployment['id']}")).json()
    assert (now["latest_revision_id"], now["active_revision_id"]) == (bad, good)
    assert await ask(workspace.client, deployment["name"]) == "good"


async def test_of_those_that_wait_the_newest_is_rolled_out(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    deployment_id = deployment["id"]
    running, *overtaken, newest = [
        await submit(workspace.client, deployment_id, echo(f"number {n}")) for n in range(4)
    ]
    assert (await wait_for_status(workspace.client, deployment_id, newest))["status"] == "DEPLOYED"
    assert (await revision(workspace.client, deployment_id, running))["status"] == "DEPLOYED"
    for revision_id in overtaken:
        found = await revision(workspace.client, deployment_id, revision_id)
        assert found["status"] == "SKIPPED" and newest in found["status_message"]
    assert await ask(workspace.client, deployment["name"]) == "number 3"


async def test_an_interrupt_ends_a_build_and_frees_the_queue(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    deployment_id = deployment["id"]
    slow = {**echo(), "pyproject.toml": SLOW_BUILD, "slow_backend.py": "import time\ntime.sleep(300)\n"}
    stuck = await submit(workspace.client, deployment_id, slow)
    await wait_for_status(workspace.client, deployment_id, stuck, ("BUILDING",))
    waiting = await submit(workspace.client, deployment_id, echo("next"))
    await wait_for_status(workspace.client, deployment_id, waiting, ("QUEUED",))
    reply = await workspace.client.post(f"/v1/projects/{deployment_id}/revisions/{stuck}/interrupt")
    assert reply.status_code == 204
    assert (await wait_for_status(workspace.client, deployment_id, stuck, seconds=20))[
        "status"
    ] == "INTERRUPTED"
    assert (await wait_for_status(workspace.client, deployment_id, waiting))["status"] == "DEPLOYED"
    again = await workspace.client.post(f"/v1/projects/{deployment_id}/revisions/{stuck}/interrupt")
    assert again.status_code == 400
    redeploy = await workspace.client.post(f"/v2/deployments/{deployment_id}/revisions/{stuck}/redeploy")
    assert redeploy.status_code == 400 and "no build" in redeploy.json()["detail"]


async def test_secrets_reach_the_graph_and_never_the_logs(workspace: Workspace) -> None:
    code = ECHO.replace('"VERSION"', '__import__("os").environ["TOKEN"][:6]')
    printing = code + '\nimport os\nprint("the token is", os.environ["TOKEN"])\n'
    deployment = await create(workspace.client, secrets=[{"name": "TOKEN", "value": "abcdef-very-secret"}])
    revision_id = await deploy(
        workspace.client, deployment["id"], {"agent.py": printing, "langgraph.json": config()}
    )
    assert await ask(workspace.client, deployment["name"]) == "abcdef"
    printed = await logs(workspace.client, deployment["id"], revision_id, "deploy")
    assert "the token is ***" in printed and "very-secret" not in printed


async def test_new_secrets_come_as_a_revision(workspace: Workspace) -> None:
    code = ECHO.replace('"VERSION"', '__import__("os").environ["TOKEN"]')
    deployment = await create(workspace.client, secrets=[{"name": "TOKEN", "value": "first-value"}])
    deployment_id = deployment["id"]
    first = await deploy(workspace.client, deployment_id, {"agent.py": code, "langgraph.json": config()})
    reply = await workspace.client.patch(
        f"/v2/deployments/{deployment_id}", json={"secrets": [{"name": "TOKEN", "value": "second-value"}]}
    )
    second = reply.json()["latest_revision_id"]
    assert second != first
    assert (await wait_for_status(workspace.client, deployment_id, second))["status"] == "DEPLOYED"
    assert await ask(workspace.client, deployment["name"]) == "second-value"


async def test_logs_page_filter_and_order(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    revision_id = await deploy(workspace.client, deployment["id"], echo())
    path = f"/v2/deployments/{deployment['id']}/revisions/{revision_id}/logs"
    everything = (await workspace.client.get(path, params={"type": "build"})).json()["logs"]
    collected, offset = [], None
    while True:
        query = {"type": "build", "limit": 2, **({"offset": offset} if offset else {})}
        page = (await workspace.client.get(path, params=query)).json()
        collected += page["logs"]
        if not (offset := page["next_offset"]):
            break
    assert collected == everything and len(everything) >= 3
    newest_first = (await workspace.client.get(path, params={"type": "build", "order": "desc"})).json()[
        "logs"
    ]
    assert newest_first == everything[::-1]
    found = (await workspace.client.get(path, params={"type": "build", "query": "UNPACKED"})).json()["logs"]
    assert len(found) == 1 and "Unpacked" in found[0]["message"]
    assert (await workspace.client.get(path, params={"type": "build", "level": "CRITICAL"})).json()[
        "logs"
    ] == []
    v1 = f"/v1/projects/{deployment['id']}/revisions/{revision_id}"
    assert (await workspace.client.post(f"{v1}/build_logs", json={"limit": 100})).json()["logs"] == everything
    deployed = await workspace.client.post(f"/v1/projects/{deployment['id']}/deploy_logs", json={})
    assert deployed.status_code == 200 and deployed.json()["logs"]
    for bad in (
        "",
        "type=x",
        "type=build&limit=0",
        "type=build&offset=x",
        "type=build&start_time=x",
        "type=build&level=x",
    ):
        assert (await workspace.client.get(f"{path}?{bad}")).status_code == 422, bad


SLOW_BUILD = """
[build-system]
requires = []
build-backend = "slow_backend"
backend-path = ["."]

[project]
name = "slow"
version = "0"
"""
