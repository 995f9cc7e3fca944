"""The shared stack of the test session itself."""

from temporalio.client import Client

from storage.database import Database
from storage.worker_roles import connection_limit
from tests.conftest import Workspace
from tests.stacks import Stack


async def test_every_part_of_the_shared_stack_serves(
    stack: Stack, workspace: Workspace, database: Database, temporal_client: Client
) -> None:
    assert (await workspace.client.get("/readyz")).json()["ready"] is True
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT extname FROM pg_extension WHERE extname = 'vector'")
        assert await cursor.fetchone() is not None
        cursor = await connection.execute(
            "SELECT current_setting('reserved_connections')::int AS reserved,"
            " current_setting('max_connections')::int AS every,"
            " pg_has_role('pg_use_reserved_connections', 'USAGE') AS is_ours"
        )
        connections = await cursor.fetchone()
        assert connections is not None and connections["is_ours"] and connections["reserved"] > 0
        assert 0 < await connection_limit(connection) < connections["every"]
    assert await temporal_client.service_client.check_health()
    assert stack.status()["ready"] is True
