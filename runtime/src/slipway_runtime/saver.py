"""The checkpointer of one attempt: langgraph's own, with every write behind the fence."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncCursor
from psycopg.rows import DictRow
from psycopg_pool import PoolTimeout

from slipway_runtime.pools import HomePool

T = TypeVar("T")

SUPERSEDED = "SW001"
# PostgreSQL may be restarted under a run; a write that fails for so long gives the run back to the queue.
_RETRY_SECONDS = 30.0


class SupersededError(Exception):
    """Another attempt has taken this run over, or it was ended; this one may not write any more."""


class DatabaseAwayError(Exception):
    """PostgreSQL could not be reached for as long as a run waits for it; the run can go on later, elsewhere."""


class FencedSaver(AsyncPostgresSaver):
    """Stores checkpoints only while its attempt is the run's newest.

    The fence runs in the same transaction as the write: in pipeline mode the statements up to the sync are one.
    Without a run (`run_id` None: states written on a user's request) there is no fence.
    Graphs call it in the user's loop; the database is spoken to in the pool's.
    """

    def __init__(self, home: HomePool, run_id: str | None = None, attempt: int = 0) -> None:
        super().__init__(home.pool)
        self._home = home
        self._run_id = run_id
        self._attempt = attempt

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._home.run(retried(lambda: super(FencedSaver, self).aget_tuple(config)))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        async def listed() -> list[CheckpointTuple]:
            found = super(FencedSaver, self).alist(config, filter=filter, before=before, limit=limit)
            return [checkpoint async for checkpoint in found]

        for checkpoint in await self._home.run(retried(listed)):
            yield checkpoint

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        storable = _without_nul(checkpoint)
        return await self._home.run(
            retried(lambda: super(FencedSaver, self).aput(config, storable, metadata, new_versions))
        )

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._home.run(
            retried(lambda: super(FencedSaver, self).aput_writes(config, writes, task_id, task_path))
        )

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        async with super()._cursor(pipeline=pipeline) as cursor:
            if pipeline and self._run_id is not None:
                await cursor.execute("SELECT slipway_fence(%s, %s)", (self._run_id, self._attempt))
            yield cursor


def is_superseded(error: BaseException) -> bool:
    """Whether `error`, or what caused it, is the fence."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, SupersededError) or getattr(seen, "sqlstate", None) == SUPERSEDED:
            return True
        seen = seen.__cause__ or seen.__context__
    return False


async def retried(call: Callable[[], Awaitable[T]]) -> T:
    """`call`, again while PostgreSQL is away: for calls that may be repeated.

    Raises:
        DatabaseAwayError: it stayed away.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _RETRY_SECONDS
    delay = 0.05
    while True:
        try:
            return await call()
        except (psycopg.OperationalError, PoolTimeout) as error:
            if loop.time() + delay > give_up:
                raise DatabaseAwayError from error
        await asyncio.sleep(delay)
        delay = min(delay * 2, 2.0)


def _without_nul(checkpoint: Checkpoint) -> Checkpoint:
    """Texts of a state are stored in jsonb, which has no NUL; bytes and objects keep theirs."""
    values = checkpoint["channel_values"]
    if not any(isinstance(value, str) and "\0" in value for value in values.values()):
        return checkpoint
    cleaned = {
        name: value.replace("\0", "\ufffd") if isinstance(value, str) else value
        for name, value in values.items()
    }
    return {**checkpoint, "channel_values": cleaned}
