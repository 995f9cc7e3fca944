"""Deployments of test projects, one each for the whole session, deployed through the control plane.

Fixtures
- `deployment`  address, key and SDK client of `project`; graphs: echo, steps, failing, asking, counter, nested
- `guarded`     the same of `guarded_project`, which decides itself who may do what
- `anonymous`   an HTTP client without a key
- `sdk`         the unmodified SDK on it
- `stranger`    the SDK with another workspace's key, on a deployment of the same name
"""

import fcntl
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
GUARDED = Path(__file__).parent / "guarded_project"
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


@dataclass(frozen=True)
class Guarded:
    """The deployed guarded project; `client` holds the workspace's key, for the control plane."""

    url: str
    api_key: str
    client: httpx.AsyncClient
    deployment_id: str

    def sdk(self, token: str) -> LangGraphClient:
        return get_client(url=self.url, api_key=None, headers={"Authorization": f"Bearer {token}"})


@pytest.fixture(scope="session")
async def workspace_client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"X-Api-Key": stack.api_key}
    async with httpx.AsyncClient(base_url=stack.api_url, headers=headers, timeout=60, trust_env=False) as api:
        yield api


@pytest.fixture(scope="session")
async def guarded(workspace_client: httpx.AsyncClient, stack: Stack) -> Guarded:
    deployed = await _deployed(workspace_client, "guarded-tests", GUARDED)
    url = f"{stack.api_url}/deployments/guarded-tests"
    return Guarded(url, stack.api_key, workspace_client, deployed["id"])


@pytest.fixture
async def anonymous() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="session")
async def deployment(workspace_client: httpx.AsyncClient, stack: Stack) -> AsyncIterator[Deployment]:
    deployed = await _deployed(workspace_client, NAME, PROJECT)
    headers = {"X-Api-Key": stack.api_key}
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


async def _deployed(api: httpx.AsyncClient, name: str, project: Path) -> dict[str, Any]:
    """Deployed by the first test that wants it, whichever xdist worker runs that; its worker stays alive."""
    described = Path(os.environ["SLIPWAY_TEST_RENDEZVOUS"]) / f"{name}.json"
    with described.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not described.exists():
            deployed = await deploy(Steps(Console(quiet=True)), api, name, project)
            described.write_text(json.dumps(deployed))
    return dict(json.loads(described.read_text()))
