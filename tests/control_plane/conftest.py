"""Deployments of a test are torn down behind it: their workers would take the other tests' processors."""

from collections.abc import AsyncIterator

import pytest

from storage.database import Database
from tests.conftest import Workspace, new_workspace
from tests.stacks import Stack


@pytest.fixture
async def workspace(stack: Stack, database: Database) -> AsyncIterator[Workspace]:
    async with new_workspace(stack, database) as workspace:
        yield workspace
        listed = await workspace.client.get("/v2/deployments", params={"limit": 100})
        ids = [deployment["id"] for deployment in listed.json()["resources"]]
        if ids:
            await workspace.client.delete("/v2/deployments", params={"deployment_ids": ids})
