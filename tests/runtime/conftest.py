"""A deployment whose worker runs on the shared stack."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from storage.database import Database
from tests.runtime.harness import Deployed


@pytest.fixture(scope="session")
async def deployed(database: Database, temporal_client: Client) -> AsyncIterator[Deployed]:
    """One deployment with one worker, for tests that leave it alive."""
    deployment = Deployed(database, temporal_client)
    await deployment.create()
    await deployment.serve()
    yield deployment
    deployment.end()


@pytest.fixture
async def own_deployment(database: Database, temporal_client: Client) -> AsyncIterator[Deployed]:
    """A deployment without a worker, for tests that start and kill their own."""
    deployment = Deployed(database, temporal_client)
    await deployment.create()
    yield deployment
    deployment.end()
