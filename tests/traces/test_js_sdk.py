"""The unmodified JavaScript SDK traces and evaluates."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Workspace

FOLDER = Path(__file__).parent / "js"
Query = Callable[..., Any]

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node.js")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of tests/traces/js with its locked packages."""
    folder = tmp_path_factory.mktemp("js")
    for file in FOLDER.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, check=True, timeout=180)
    return folder


async def test_the_javascript_sdk_traces_and_evaluates(
    installed: Path, workspace: Workspace, query: Query
) -> None:
    environment = {
        **os.environ,
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_ENDPOINT": workspace.api_url,
        "LANGSMITH_API_KEY": workspace.api_key,
    }
    result = await asyncio.to_thread(
        subprocess.run,
        ["node", "trace.mjs"],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    client = workspace.client
    project = (await client.get("/sessions", params={"name": "js"})).json()[0]
    runs = {run["name"]: run for run in await query(session=[project["id"]])}
    root = runs["agent"]
    assert root["status"] == "success"
    assert root["tags"] == ["js"]
    assert root["extra"]["metadata"]["customer"] == "acme"
    assert (root["total_tokens"], runs["model"]["total_tokens"]) == (7, 7)
    assert runs["tool"]["status"] == "error"
    assert runs["counter"]["parent_run_ids"] == [root["id"]]
    assert all(run["end_time"] for run in runs.values())
    assert 'copied=[{"question":"what"},{"answer":"one"}]' in result.stdout
    assert "group=t-1 1" in result.stdout
    name = next(line for line in result.stdout.splitlines() if line.startswith("experiment=")).partition("=")[
        2
    ]
    experiment = (await client.get("/sessions", params={"name": name, "include_stats": True})).json()[0]
    assert experiment["run_count"] == 2
    assert experiment["feedback_stats"]["correct"]["avg"] == 0.5
