"""The unmodified JavaScript SDK on assistants, threads, runs and state, in the versions that clients use."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.agent_server.conftest import Deployment

FOLDER = Path(__file__).parent.parent / "streams" / "js"
VERSIONS = ("1.11.0", "1.15.0")

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


@pytest.fixture(scope="session")
def packages() -> None:
    """Installed from the lock file, once."""
    if not (FOLDER / "node_modules" / f"sdk-{VERSIONS[-1]}").exists():
        command = ["npm", "ci", "--no-audit", "--no-fund", "--legacy-peer-deps"]
        subprocess.run(command, cwd=FOLDER, check=True, capture_output=True)


async def _seen(deployment: Deployment, version: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        "node", "contract.mjs", version, deployment.url, deployment.api_key,
        cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    output, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    return dict(json.loads(output.decode().splitlines()[-1]))


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_javascript_sdk_is_understood(deployment: Deployment, packages: None, version: str) -> None:
    seen = await _seen(deployment, version)
    assert seen["assistants"] == {
        "version": 2,
        "versions": [2, 1],
        "restored": "echo",
        "found": 1,
        "count": 1,
        "nodes": ["__start__", "__end__", "middle:inner:ask"],
        "inputs": ["messages"],
        "gone": 404,
    }
    assert seen["threads"] == {
        "found": [["idle", 2], ["idle", 2]],
        "count": 1,
        "runs": ["success"],
        "copied": {"inputs": ["a", "b"], "count": 2},
        "gone": 404,
    }
    assert seen["state"] == {
        "steps": [5, 4, 3, 2, 1, 0, -1],
        "forked": ["step1", "step2", "fork"],
        "before": ["step1", "step2", "step3", "step4", "step5"],
    }
    assert seen["interrupted"] == {
        "asked": [{"question": "why?"}],
        "status": "interrupted",
        "answer": "because",
    }
    assert "told to fail" in seen["failed"]["message"]
    assert seen["failed"]["status"] == "error"
    assert seen["refused"] == {"graph": 404, "thread": 404, "run": 404, "id": 422}
