"""`install_command` and `build_command`: where they run, what they see, and how they are refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.database import Database
from tests.conftest import Workspace, new_workspace
from tests.control_plane.projects import ECHO, config, tarball
from tests.control_plane.steps import (
    ask,
    create,
    deploy,
    logs,
    revision,
    submit,
    upload,
    wait_for_status,
)
from tests.stacks import Stack

# The command wrote what the graph answers with.
_FROM_FILE = ECHO.replace('"VERSION"', '__import__("pathlib").Path(__file__).with_name("answer").read_text()')


async def test_the_commands_run_in_order_each_in_its_folder_with_the_projects_environment(
    workspace: Workspace,
) -> None:
    """Install at the project's root, then build beside langgraph.json; without the secrets."""
    deployment = await create(
        workspace.client,
        secrets=[{"name": "TOKEN", "value": "not-for-builds"}],
        source_config={
            "install_command": "pwd > root && echo installed by $(command -v python) && echo token:$TOKEN",
            "build_command": "echo \"built below $(basename $(cat ../root))\" | tr -d '\\n' > answer",
        },
    )
    deployment_id = deployment["id"]
    path = await upload(
        workspace.client,
        deployment_id,
        tarball({"agents/agent.py": _FROM_FILE, "agents/langgraph.json": config()}),
    )
    source = {"source_tarball_path": path, "langgraph_config_path": "agents/langgraph.json"}
    reply = await workspace.client.patch(
        f"/v2/deployments/{deployment_id}", json={"source_revision_config": source}
    )
    revision_id = reply.json()["latest_revision_id"]
    found = await wait_for_status(workspace.client, deployment_id, revision_id)
    assert found["status"] == "DEPLOYED", found

    assert await ask(workspace.client, deployment["name"]) == "built below project"
    printed = await logs(workspace.client, deployment_id, revision_id, "build")
    assert "environment/bin/python" in printed and "token:\n" in printed + "\n"
    assert "not-for-builds" not in printed


@pytest.mark.parametrize("key", ["install_command", "build_command"])
async def test_a_command_that_fails_fails_the_build_with_what_it_printed(
    workspace: Workspace, key: str
) -> None:
    deployment = await create(workspace.client)
    files = {"agent.py": ECHO, "langgraph.json": config()}
    good = await deploy(workspace.client, deployment["id"], files)
    bad = await submit(
        workspace.client, deployment["id"], files, source_config={key: "echo no such compiler >&2; exit 7"}
    )
    found = await wait_for_status(workspace.client, deployment["id"], bad)
    assert found["status"] == "BUILD_FAILED"
    assert "code 7" in found["status_message"] and "no such compiler" in found["status_message"]
    assert (await revision(workspace.client, deployment["id"], good))["status"] == "DEPLOYED"
    assert await ask(workspace.client, deployment["name"]) == "VERSION"


async def test_an_image_has_no_commands(workspace: Workspace) -> None:
    for key in ("install_command", "build_command"):
        reply = await workspace.client.post(
            "/v2/deployments",
            json={
                "name": f"image-{key.replace('_', '-')}",
                "source": "external_docker",
                "source_config": {key: "true"},
                "source_revision_config": {"image_uri": "registry.example/agent:1"},
                "secrets": [],
            },
        )
        assert reply.status_code == 400 and key in reply.json()["detail"], reply.text
    assert (await workspace.client.get("/v2/deployments")).json()["resources"] == []


@pytest.mark.timeout(300)
async def test_where_builds_are_not_trusted_no_command_runs(
    private_stack: Callable[..., Stack], tmp_path: Path
) -> None:
    stack = private_stack(SLIPWAY_TRUST_PROJECT_BUILDS="false")
    files = {"agent.py": ECHO, "langgraph.json": config()}
    async with Database(stack.database_url, 2) as database, new_workspace(stack, database) as workspace:
        deployment = await create(workspace.client)
        good = await deploy(workspace.client, deployment["id"], files)
        for key in ("install_command", "build_command"):
            note = tmp_path / key
            bad = await submit(
                workspace.client, deployment["id"], files, source_config={key: f"touch {note}"}
            )
            found = await wait_for_status(workspace.client, deployment["id"], bad)
            assert found["status"] == "BUILD_FAILED"
            assert "_command` is switched off in this installation" in found["status_message"]
            assert not note.exists()
        now = (await workspace.client.get(f"/v2/deployments/{deployment['id']}")).json()
        assert now["active_revision_id"] == good
        assert await ask(workspace.client, deployment["name"]) == "VERSION"
