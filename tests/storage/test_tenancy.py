"""Keys are stored as hashes; the tenant predicate cannot be forgotten; workers see their deployment only."""

from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from temporalio.client import Client

from storage.database import Database
from storage.migrate import migrate
from storage.scope import DeploymentScope, ScopedRepository
from storage.tenancy import create_key, create_tenant, find_key_holder, revoke_key
from storage.threads import Threads
from tests.runtime.harness import Deployed


async def test_key_is_stored_as_a_hash_and_ends_when_revoked(database: Database) -> None:
    async with database.transaction() as connection:
        tenant = await create_tenant(connection, "hashes")
        text = await create_key(connection, tenant.tenant_id, "one")
        holder = await find_key_holder(connection, text)
        assert holder is not None
        assert holder.tenant == tenant
        cursor = await connection.execute("SELECT * FROM api_keys WHERE id = %s", (holder.key_id,))
        stored = await cursor.fetchone()
        assert text not in str(stored)
        assert not await revoke_key(connection, uuid4(), holder.key_id)
        assert await revoke_key(connection, tenant.tenant_id, holder.key_id)
        assert await find_key_holder(connection, text) is None


async def test_statement_without_the_tenant_predicate_is_refused(database: Database) -> None:
    async with database.connection() as connection:
        repository = ScopedRepository(connection, DeploymentScope(uuid4(), uuid4()))
        with pytest.raises(ValueError, match="without tenant predicate"):
            await repository.execute("SELECT * FROM threads")


async def test_scope_of_another_tenant_or_deployment_finds_nothing(
    database: Database, temporal_client: Client
) -> None:
    deployed = Deployed(database, temporal_client)
    await deployed.create()
    thread_id = await deployed.thread()
    async with database.connection() as connection:
        for scope, found in [
            (DeploymentScope(deployed.tenant_id, deployed.deployment_id), True),
            (DeploymentScope(uuid4(), deployed.deployment_id), False),
            (DeploymentScope(deployed.tenant_id, uuid4()), False),
        ]:
            assert bool(await Threads(connection, scope).get(thread_id)) is found


async def test_worker_role_sees_and_writes_only_its_own_deployment(
    database: Database, temporal_client: Client
) -> None:
    mine, other = Deployed(database, temporal_client), Deployed(database, temporal_client)
    for deployed in (mine, other):
        await deployed.create()
    my_thread, other_thread = await mine.thread(), await other.thread()
    async with await psycopg.AsyncConnection.connect(
        mine.worker_database_url, autocommit=True, row_factory=dict_row
    ) as worker:

        async def rows(statement: str, *parameters: Any) -> int:
            return (await worker.execute(statement.encode(), parameters)).rowcount

        assert await rows("SELECT FROM threads WHERE thread_id = %s", my_thread) == 1
        assert await rows("SELECT FROM threads WHERE thread_id = %s", other_thread) == 0
        assert await rows("UPDATE threads SET status = 'error' WHERE thread_id = %s", other_thread) == 0
        for table in ("tenants", "api_keys", "deployments", "revisions", "trace_runs"):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable)):
                await worker.execute(f"SELECT * FROM {table}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await worker.execute(
                "INSERT INTO thread_states (thread_id, checkpoint_id, deployment_id, state) VALUES (%s, 'c', %s, '{}')",
                (other_thread, other.deployment_id),
            )
        checkpoint = (
            "INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint, deployment_id)"
            " VALUES (%s, 'c', '{}', %s)"
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await worker.execute(checkpoint, (str(other_thread), other.deployment_id))
        await worker.execute(checkpoint, (str(my_thread), mine.deployment_id))


def test_migrations_can_be_applied_again(database: Database) -> None:
    migrate(database.url)
