"""Writes to a thread's state that a client asked for (agent server contract §3.3, POST state)."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.errors import InvalidUpdateError
from langgraph.types import StateUpdate
from psycopg import AsyncCursor
from psycopg.rows import DictRow
from temporalio import activity

from slipway_runtime.describe import LoadedProject, ProjectLoader
from slipway_runtime.environment import mask_secrets
from slipway_runtime.graphs import Graph, Graphs
from slipway_runtime.messages import UPDATE_STATE, UpdateState
from slipway_runtime.plan import command_of
from slipway_runtime.pools import HomePool, Pool
from slipway_runtime.project import ProjectError
from slipway_runtime.saver import DatabaseAwayError, FencedSaver, is_superseded
from slipway_runtime.serialization import dump_json
from slipway_runtime.states import state_of
from slipway_runtime.user_loop import RunCancelledError, UserCodeStuckError, UserLoop

log = logging.getLogger(__name__)

_MAX_ERROR = 2_000
_CLAIM = """
UPDATE state_updates SET claimed_at = coalesce(claimed_at, now())
WHERE update_id = %(update_id)s AND thread_id = %(thread_id)s AND response IS NULL RETURNING graph_id, request
"""
_FENCE = "SELECT slipway_fence_update(%s)"
_STORE_STATE = """
INSERT INTO thread_states (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, metadata, state)
VALUES (%s, %s, %s, %s, %s::jsonb, %s::json)
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET state = excluded.state
"""
_RESPOND = "UPDATE state_updates SET response = %s::json WHERE update_id = %s"


class UpdateSaver(FencedSaver):
    """Writes only while the update was not withdrawn."""

    def __init__(self, home: HomePool, update_id: str) -> None:
        super().__init__(home)
        self._update_id = update_id

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        async with super()._cursor(pipeline=pipeline) as cursor:
            if pipeline:
                await cursor.execute(_FENCE, (self._update_id,))
            yield cursor

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        marked: Any = {**metadata, "update_id": self._update_id}
        return await super().aput(config, checkpoint, marked, new_versions)


@dataclass(frozen=True)
class StateActivities:
    """`home` is the pool of the loop in which the worker itself runs."""

    load: ProjectLoader
    user_loop: UserLoop
    home: HomePool

    @activity.defn(name=UPDATE_STATE)
    async def update_state(self, update: UpdateState) -> None:
        """Apply an update and write its response; one that was withdrawn, or answered already, is left alone."""
        project: LoadedProject = await self.load()
        if project.graphs is None:
            return
        ids = {"update_id": update.update_id, "thread_id": update.thread_id}
        async with self.home.pool.connection() as connection:
            claimed = await (await connection.execute(_CLAIM, ids)).fetchone()
        if claimed is None:
            return
        applying = _apply(self.home, project.graphs, update, claimed["graph_id"], claimed["request"])
        try:
            response = await self.user_loop.run(applying)
        except (DatabaseAwayError, psycopg.OperationalError, RunCancelledError, UserCodeStuckError):
            raise
        except Exception as error:  # user code: reducers and validators run here
            if is_superseded(error):
                return
            response = {"error": _sentence(error)}
        async with self.home.pool.connection() as connection:
            await connection.execute(_RESPOND, (dump_json(response).decode(), update.update_id))


async def _apply(
    home: HomePool, graphs: Graphs, update: UpdateState, graph_id: str, request: Mapping[str, Any]
) -> dict[str, Any]:
    config: RunnableConfig = {
        "configurable": {
            **(request.get("configurable") or {}),
            "thread_id": update.thread_id,
            "graph_id": graph_id,
            "checkpoint_ns": "",
            **{key: value for key, value in (request.get("checkpoint") or {}).items() if value is not None},
        },
        "metadata": {**(request.get("metadata") or {}), "graph_id": graph_id, "thread_id": update.thread_id},
    }
    saver = UpdateSaver(home, update.update_id)
    async with graphs.open(graph_id, config) as made:
        graph = made.copy({"checkpointer": saver})
        written = await _written_before(saver, config, update.update_id)
        if written is None:
            written = await graph.abulk_update_state(config, _supersteps(request["supersteps"]))
        await _store_states(home, graph, update.thread_id, written, update.update_id)
    configurable = written["configurable"]
    return {
        "checkpoint": {
            "thread_id": update.thread_id,
            "checkpoint_ns": configurable.get("checkpoint_ns", ""),
            "checkpoint_id": configurable["checkpoint_id"],
            "checkpoint_map": configurable.get("checkpoint_map"),
        }
    }


async def _written_before(
    saver: FencedSaver, config: RunnableConfig, update_id: str
) -> RunnableConfig | None:
    """What an earlier attempt of this update has written, if it got so far: the newest checkpoint is then its own."""
    place = {key: config["configurable"][key] for key in ("thread_id", "checkpoint_ns")}
    newest = await saver.aget_tuple({"configurable": place})
    if newest is None or newest.metadata.get("update_id") != update_id:
        return None
    return newest.config


async def _store_states(
    home: HomePool, graph: Graph, thread_id: str, written: RunnableConfig, update_id: str
) -> None:
    """The public state of each checkpoint that this update made, newest first until another's is met."""
    place: RunnableConfig | None = {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": written["configurable"].get("checkpoint_ns", ""),
            "checkpoint_id": written["configurable"]["checkpoint_id"],
        }
    }
    rows = []
    while place is not None:
        snapshot = await graph.aget_state(place)
        if (snapshot.metadata or {}).get("update_id") != update_id:
            break
        row = state_of(snapshot, thread_id).row()
        rows.append(
            (
                thread_id,
                row.checkpoint_ns,
                row.checkpoint_id,
                row.parent_checkpoint_id,
                row.metadata,
                row.state,
            )
        )
        place = snapshot.parent_config
    await home.run(_write_states(home.pool, update_id, rows))


async def _write_states(pool: Pool, update_id: str, rows: Sequence[Sequence[Any]]) -> None:
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(_FENCE, (update_id,))
        await connection.cursor().executemany(_STORE_STATE, rows)


def _supersteps(supersteps: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[StateUpdate]]:
    return [
        [StateUpdate(_values(update), as_node=update.get("as_node")) for update in updates]
        for updates in supersteps
    ]


def _values(update: Mapping[str, Any]) -> Any:
    command = update.get("command")
    return command_of(command) if command else update.get("values")


def _sentence(error: Exception) -> str:
    text = (
        str(error)
        if isinstance(error, (InvalidUpdateError, ProjectError))
        else f"{type(error).__name__}: {error}"
    )
    return mask_secrets(text)[:_MAX_ERROR]
