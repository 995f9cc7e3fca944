"""A deployment of tests/streams/project with a worker of the test session, reached through the API."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from psycopg.types.json import Jsonb
from rich.console import Console
from temporalio.client import Client

from stack.demo.deploying import deploy
from stack.demo.steps import Steps
from storage.assistants import ensure_system_assistants
from storage.database import Database
from storage.tenancy import create_key
from tests.runtime.harness import Deployed
from tests.stacks import Stack

PROJECT = Path(__file__).parent / "project"
DEEP_AGENT = Path(__file__).parent.parent.parent / "examples" / "deep_agent"


class Served(Deployed):
    """A deployment that the agent server serves."""

    api_url: str
    url: str
    api_key: str
    http: httpx.AsyncClient
    sdk: LangGraphClient

    async def publish(self, api_url: str) -> None:
        """Make its graphs known to the API, as a rollout does at its end."""
        graph_ids = list(json.loads((self.project / "langgraph.json").read_text())["graphs"])
        description = {"graphs": [{"graph_id": graph_id} for graph_id in graph_ids]}
        async with self.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO revisions (id, deployment_id, tenant_id, number, status, source, description)"
                " VALUES (%s, %s, %s, 1, 'DEPLOYED', 'internal_source', %s)",
                (self.revision_id, self.deployment_id, self.tenant_id, Jsonb(description)),
            )
            await connection.execute(
                "UPDATE deployments SET active_revision_id = %s WHERE id = %s",
                (self.revision_id, self.deployment_id),
            )
            await ensure_system_assistants(connection, self.tenant_id, self.deployment_id, graph_ids)
            self.api_key = await create_key(connection, self.tenant_id, "streams")
        self.api_url = api_url
        self.url = f"{api_url}/deployments/d-{self.deployment_id.hex[:8]}"

    async def new_thread(self) -> str:
        return str((await self.http.post("/threads", json={})).json()["thread_id"])


@asynccontextmanager
async def served(stack: Stack, database: Database, client: Client) -> AsyncIterator[Served]:
    deployment = Served(database, client, PROJECT)
    await deployment.create()
    await deployment.publish(stack.api_url)
    headers = {"X-Api-Key": deployment.api_key}
    async with (
        httpx.AsyncClient(base_url=deployment.url, headers=headers, timeout=30, trust_env=False) as http,
        get_client(url=deployment.url, api_key=deployment.api_key) as sdk,
    ):
        deployment.http, deployment.sdk = http, sdk
        yield deployment
    deployment.end()


@pytest.fixture(scope="session")
async def streaming(stack: Stack, database: Database, temporal_client: Client) -> AsyncIterator[Served]:
    """One deployment for all tests that leave its worker alive."""
    async with served(stack, database, temporal_client) as deployment:
        await deployment.serve()
        yield deployment


@pytest.fixture
async def own_streaming(stack: Stack, database: Database, temporal_client: Client) -> AsyncIterator[Served]:
    """A deployment whose worker the test starts and kills."""
    async with served(stack, database, temporal_client) as deployment:
        yield deployment


Frame = dict[str, Any]


async def frames_of(response: httpx.Response) -> AsyncIterator[Frame]:
    """Server-sent events: event, data (parsed), id."""
    found: Frame = {}
    async for line in response.aiter_lines():
        if not line:
            if "data" in found:
                yield found
            found = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            found[name] = json.loads(value) if name == "data" else value


async def read_run(served: Served, thread_id: str, body: dict[str, Any]) -> list[Frame]:
    """All frames of a run that is created and watched."""
    path = f"/threads/{thread_id}/runs/stream"
    async with served.http.stream("POST", path, json=body) as response:
        assert response.status_code == 200, await response.aread()
        return [frame async for frame in frames_of(response)]


def thread_of(served: Served, thread_id: str | UUID) -> str:
    return f"{served.url}/threads/{thread_id}"


@dataclass(frozen=True)
class Address:
    """Where a deployment is, and a key for it: all that a client needs."""

    url: str
    api_key: str


@pytest.fixture(scope="session")
async def deep_agent(stack: Stack) -> Address:
    """The example's deep agent with its two sub-agents, built and deployed by the control plane."""
    headers = {"X-Api-Key": stack.api_key}
    async with httpx.AsyncClient(base_url=stack.api_url, headers=headers, timeout=60, trust_env=False) as api:
        await deploy(Steps(Console(quiet=True)), api, "streams-deep-agent", DEEP_AGENT)
    return Address(f"{stack.api_url}/deployments/streams-deep-agent", stack.api_key)
