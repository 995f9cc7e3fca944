"""One deployment of tests/agent_server/project for the whole session, deployed through the control plane.

Fixtures
- `deployment`  its address, key and SDK client; graphs: echo, steps, failing, asking, counter, nested
- `sdk`         the unmodified SDK on it
- `stranger`    the SDK with another workspace's key, on a deployment of the same name
"""

import fcntl
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from rich.console import Console

from stack.demo.deploying import deploy
from stack.demo.steps import Steps
from storage.database import Database
from tests.agent_server.bare_deployment import bare_deployment
from tests.conftest import Workspace
from tests.stacks import Stack

PROJECT = Path(__file__).parent / "project"
NAME = "agent-server-tests"


@dataclass(frozen=True)
class Deployment:
    """The deployed test project, in the workspace that the stack made at its first start."""

    url: str
    api_key: str
    tenant_id: str
    deployment_id: str
    revision_id: str
    client: httpx.AsyncClient
    sdk: LangGraphClient


@pytest.fixture(scope="session")
async def deployment(stack: Stack) -> AsyncIterator[Deployment]:
    """Deployed by the first test that wants it, whichever xdist worker runs that; its worker stays alive."""
    described = Path(os.environ["SLIPWAY_TEST_RENDEZVOUS"]) / "agent-server.json"
    headers = {"X-Api-Key": stack.api_key}
    async with httpx.AsyncClient(base_url=stack.api_url, headers=headers, timeout=60, trust_env=False) as api:
        with described.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not described.exists():
                deployed = await deploy(Steps(Console(quiet=True)), api, NAME, PROJECT)
                described.write_text(json.dumps(deployed))
        deployed = json.loads(described.read_text())
    url = f"{stack.api_url}/deployments/{NAME}"
    async with (
        httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as client,
        get_client(url=url, api_key=stack.api_key) as sdk,
    ):
        yield Deployment(
            url,
            stack.api_key,
            stack.tenant_id,
            deployed["id"],
            deployed["latest_revision_id"],
            client,
            sdk,
        )


@pytest.fixture
def sdk(deployment: Deployment) -> LangGraphClient:
    return deployment.sdk


@pytest.fixture
async def stranger(other_workspace: Workspace, database: Database) -> AsyncIterator[LangGraphClient]:
    """Another workspace's client: what it may not see of `deployment` is a 404 for it."""
    async with bare_deployment(database, other_workspace, ["echo"]) as deployed:
        yield deployed.sdk
