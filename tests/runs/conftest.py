"""One deployment of the test project, and clients of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from temporalio.client import Client

from storage.database import Database
from tests.served import Served
from tests.stacks import Stack

PROJECT = Path(__file__).parent / "project"
GRAPHS = ["chat", "steps", "failing", "asking", "configured"]


@pytest.fixture(scope="session")
async def served(database: Database, temporal_client: Client) -> AsyncIterator[Served]:
    served = Served(database, temporal_client, PROJECT)
    await served.publish(GRAPHS)
    yield served
    served.end()


@pytest.fixture
def sdk(stack: Stack, served: Served) -> LangGraphClient:
    """The unmodified Python SDK."""
    return get_client(url=served.url(stack.api_url), api_key=served.api_key)


@pytest.fixture
async def http(stack: Stack, served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """Plain HTTP, for what the SDK would not send or does not show."""
    async with httpx.AsyncClient(
        base_url=served.url(stack.api_url),
        headers={"X-Api-Key": served.api_key},
        timeout=30,
        trust_env=False,
    ) as client:
        yield client


@pytest.fixture
async def thread_id(sdk: LangGraphClient) -> str:
    return str((await sdk.threads.create())["thread_id"])
