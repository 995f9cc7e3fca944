"""The real `langgraph deploy` command, unmodified, against a running stack (control plane contract §6.1)."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.conftest import Workspace
from tests.control_plane.projects import config, echo
from tests.control_plane.steps import unique

_COMMAND = Path(sys.executable).with_name("langgraph")


async def _langgraph(workspace: Workspace, folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of `langgraph deploy ...` in a project's folder."""
    process = await asyncio.create_subprocess_exec(
        _COMMAND,
        "deploy",
        *arguments,
        cwd=folder,
        env={
            **os.environ,
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",
            "LANGGRAPH_HOST_URL": workspace.api_url,
            "LANGSMITH_API_KEY": workspace.api_key,
            "LANGSMITH_TENANT_ID": str(workspace.tenant_id),
            "NO_PROXY": "*",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode is not None
    return process.returncode, output.decode()


def _events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).write_text(content)


async def test_deploy_list_revisions_logs_update_and_delete(workspace: Workspace, tmp_path: Path) -> None:
    name = unique("cli")
    _write(tmp_path, {**echo("one"), "langgraph.json": config(env={"FOO": "bar"})})
    options = ("--name", name, "--no-input", "--json", "--remote", "--verbose")
    code, output = await _langgraph(workspace, tmp_path, *options)
    assert code == 0, output
    assert any(event.get("status") == "succeeded" for event in _events(output)), output
    deployment_id = next(event["deployment_id"] for event in _events(output) if event.get("deployment_id"))

    agent = get_client(url=f"{workspace.api_url}/deployments/{name}", api_key=workspace.api_key)
    thread = await agent.threads.create()
    message = {"messages": [{"role": "user", "content": "hi"}]}
    values: Any = await agent.runs.wait(thread["thread_id"], "agent", input=message)
    assert values["messages"][-1]["content"] == "one"

    _write(tmp_path, echo("two"))
    code, output = await _langgraph(workspace, tmp_path, *options)
    assert code == 0, output
    values = await agent.runs.wait(thread["thread_id"], "agent", input=message)
    assert values["messages"][-1]["content"] == "two"

    code, output = await _langgraph(workspace, tmp_path, "list")
    assert code == 0 and name in output
    code, output = await _langgraph(workspace, tmp_path, "revisions", "list", deployment_id)
    assert code == 0 and "DEPLOYED" in output
    for kind, text in (("build", "Build finished."), ("deploy", "project_loaded")):
        code, output = await _langgraph(
            workspace, tmp_path, "logs", "--deployment-id", deployment_id, "--type", kind
        )
        assert code == 0 and text in output, output
    code, output = await _langgraph(workspace, tmp_path, "delete", "--force", deployment_id)
    assert code == 0, output


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"agent.py": "import no_such_module_here", "langgraph.json": config()}, "no_such_module_here"),
        ({**echo(), "requirements.txt": "slipway-no-such-package==1"}, "slipway-no-such-package"),
    ],
)
async def test_a_failure_exits_1(
    workspace: Workspace, tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    _write(tmp_path, files)
    name = unique("cli")
    code, output = await _langgraph(workspace, tmp_path, "--name", name, "--no-input", "--json", "--remote")
    assert code == 1, output
    deployment = (await workspace.client.get("/v2/deployments", params={"name": name})).json()["resources"][0]
    path = f"/v2/deployments/{deployment['id']}/revisions/{deployment['latest_revision_id']}"
    assert reason in (await workspace.client.get(path)).json()["status_message"]
    if "requirements.txt" in files:
        assert reason in output


async def test_a_wrong_key_exits_1_with_the_reason(workspace: Workspace, tmp_path: Path) -> None:
    _write(tmp_path, echo())
    stranger = Workspace(workspace.tenant_id, "slw_wrong", workspace.api_url, workspace.client)
    code, output = await _langgraph(
        stranger, tmp_path, "--name", unique("cli"), "--no-input", "--json", "--remote"
    )
    assert code == 1 and "Invalid API key" in output
