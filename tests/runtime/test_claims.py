"""Taking a run whose creation is committed at the worst moment."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool
from slipway_runtime.claims import Claim, claim_run
from slipway_runtime.messages import ExecuteRun

from tests.runtime.harness import Deployed


class CommitsBetweenLooks:
    """A connection whose first statement is followed by the commit of somebody else's transaction."""

    def __init__(self, connection: AsyncConnection[DictRow], creation: AsyncConnection[DictRow]) -> None:
        self._connection = connection
        self._creation = creation
        self.commits = 0

    async def execute(self, *arguments: Any) -> Any:
        cursor = await self._connection.execute(*arguments)
        if self.commits == 0:
            self.commits += 1
            await self._creation.commit()
        return cursor


class Pool:
    """Hands out that connection, as the worker's pool does."""

    def __init__(self, connection: CommitsBetweenLooks) -> None:
        self._connection = connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[CommitsBetweenLooks]:
        yield self._connection


async def test_run_committed_between_the_two_looks_is_taken(own_deployment: Deployed) -> None:
    thread_id, run_id = await own_deployment.thread(), uuid4()
    async with (
        await AsyncConnection.connect(own_deployment.database.url, row_factory=dict_row) as creation,
        AsyncConnectionPool(
            own_deployment.worker_database_url,
            connection_class=AsyncConnection[DictRow],
            kwargs={"autocommit": True, "row_factory": dict_row},
            open=False,
        ) as pool,
        pool.connection() as connection,
    ):
        await creation.execute(
            "INSERT INTO runs (run_id, thread_id, deployment_id, tenant_id, assistant_id, graph_id, kwargs)"
            " VALUES (%s, %s, %s, %s, %s, 'steps', '{}')",
            (run_id, thread_id, own_deployment.deployment_id, own_deployment.tenant_id, uuid4()),
        )
        looking = CommitsBetweenLooks(connection, creation)
        request = ExecuteRun(str(run_id), str(thread_id))
        claimed = await claim_run(Pool(looking), request, str(uuid4()))  # type: ignore[arg-type]
    assert looking.commits == 1
    assert isinstance(claimed, Claim), claimed
    assert claimed.attempt == 1
