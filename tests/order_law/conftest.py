"""A deployment of the ledger project."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from storage.database import Database
from tests.served import Served

PROJECT = Path(__file__).parent / "project"


@pytest.fixture
async def served(database: Database, temporal_client: Client) -> AsyncIterator[Served]:
    served = Served(database, temporal_client, PROJECT)
    await served.publish(["ledger"])
    yield served
    served.end()
