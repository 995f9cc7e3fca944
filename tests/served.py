"""A deployment that the API serves, with worker processes of the test's own, which it may kill.

Its rows are made directly, not by a rollout: what is tested with it is the agent server.
"""

from pathlib import Path
from uuid import uuid4

from psycopg.types.json import Jsonb
from temporalio.client import Client

from storage.assistants import ensure_system_assistants
from storage.database import Database
from storage.tenancy import create_key
from tests.runtime.harness import Deployed


class Served(Deployed):
    """Deployed, with what the API needs to create runs: an active revision, its assistants, a key."""

    def __init__(self, database: Database, client: Client, project: Path) -> None:
        super().__init__(database, client, project)
        self.name = f"served-{uuid4().hex[:8]}"
        self.api_key = ""

    async def publish(self, graph_ids: list[str]) -> None:
        """Create the rows, start one worker, make it current."""
        await self.create()
        description = {"graphs": [{"graph_id": graph_id} for graph_id in graph_ids]}
        async with self.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO revisions (id, deployment_id, tenant_id, number, status, source, description)"
                " VALUES (%s, %s, %s, 1, 'DEPLOYED', 'internal_source', %s)",
                (self.revision_id, self.deployment_id, self.tenant_id, Jsonb(description)),
            )
            await connection.execute(
                "UPDATE deployments SET name = %s, active_revision_id = %s WHERE id = %s",
                (self.name, self.revision_id, self.deployment_id),
            )
            await ensure_system_assistants(connection, self.tenant_id, self.deployment_id, graph_ids)
            self.api_key = await create_key(connection, self.tenant_id, "test")
        await self.serve()

    def url(self, api_url: str) -> str:
        """What clients of this deployment use as the agent server's address."""
        return f"{api_url}/deployments/{self.name}"
