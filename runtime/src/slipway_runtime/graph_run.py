"""One attempt inside the user's loop: the graph runs, its stream is recorded."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import EmptyInputError, GraphInterrupt

from slipway_runtime.claims import Claim
from slipway_runtime.graphs import Graph, Graphs
from slipway_runtime.injection import Injection, injected_input
from slipway_runtime.plan import Plan, graph_config, graph_input, graph_options
from slipway_runtime.pools import HomePool, Pool
from slipway_runtime.recording import Namespace, Recorder, open_parts
from slipway_runtime.records import RunRecord, Settlement
from slipway_runtime.saver import DatabaseAwayError, FencedSaver, SupersededError, is_superseded, retried
from slipway_runtime.serialization import dump_json
from slipway_runtime.states import StateTracker
from slipway_runtime.store import Stores

log = logging.getLogger(__name__)

_MAX_MESSAGE = 10_000
_FULL_PAUSE_SECONDS = 0.01

_DROP_ORPHANS = """
DELETE FROM thread_states s WHERE s.thread_id = %(thread_id)s AND s.run_id = %(run_id)s AND NOT EXISTS (
    SELECT FROM checkpoints c WHERE c.thread_id = %(thread_id)s::text AND c.checkpoint_ns = s.checkpoint_ns
    AND c.checkpoint_id = s.checkpoint_id)
"""

_HAS_BEGUN = "SELECT FROM thread_events WHERE run_id = %s AND event = 'running' LIMIT 1"

# Rows in which nested graphs or messages begin or end.
_LEFT_OPEN = """
SELECT event, namespace, data FROM thread_events WHERE thread_id = %(thread_id)s AND run_id = %(run_id)s
AND (event = 'lifecycle' OR event = 'messages' AND data::text ~ 'message-start|message-finish|"error"') ORDER BY seq
"""


@dataclass(frozen=True)
class GraphRun:
    """What an attempt needs of its process. `pool` belongs to the user's loop, `home` to the worker's."""

    graphs: Graphs
    stores: Stores
    pool: Pool
    home: HomePool
    is_full: Callable[[], bool]

    async def execute(self, claim: Claim, record: RunRecord) -> Settlement:
        """Run the graph to its end; the rows are in `record`, not yet stored.

        Raises:
            SupersededError: another attempt has taken over.
            DatabaseAwayError: the database stayed away; the run can go on elsewhere.
            asyncio.CancelledError: cancelled; the record holds the newest state.
        """
        plan, config = Plan.of(claim.kwargs), graph_config(claim)
        states = StateTracker(record, config["metadata"])
        recorder = Recorder(plan, record, states, claim.graph_id)
        recorder.begin(again=claim.attempt > 1 and await self._has_begun(claim))
        try:
            await self._stream(claim, plan, config, states, recorder)
        except asyncio.CancelledError:
            recorder.pause()
            raise
        except (SupersededError, DatabaseAwayError):
            raise
        except EmptyInputError:
            # No input on a thread without work left: there is nothing to do, which is no failure.
            recorder.end("completed")
            return Settlement("success", "idle")
        except (Exception, GraphInterrupt, SystemExit, KeyboardInterrupt) as error:
            if is_superseded(error):
                raise SupersededError from error
            return _failed(error, states, recorder)
        interrupted = states.root is not None and states.root.is_interrupted
        recorder.end("interrupted" if interrupted else "completed")
        return Settlement("success", "interrupted" if interrupted else "idle")

    async def _stream(
        self, claim: Claim, plan: Plan, config: RunnableConfig, states: StateTracker, recorder: Recorder
    ) -> None:
        saver = FencedSaver(self.home, claim.run_id, claim.attempt)
        options = graph_options(claim.kwargs)
        async with self.graphs.open(claim.graph_id, config) as made:
            graph = made.copy({"checkpointer": saver, "store": self.stores.open(self.pool)})
            given = graph_input(claim.kwargs)
            if claim.inject:
                given = await injected_input(graph, config, given)
            if claim.attempt > 1:
                recorder.take_over(*await self._left_open(claim, plan))
                if await self._resume(saver, claim, config):
                    given = None
            try:
                injection = Injection(self.home, claim, states)
                async with contextlib.aclosing(
                    _parts(graph, given, config, plan, options, recorder, injection)
                ) as parts:
                    async for namespace, mode, data in parts:
                        if options["durability"] != "exit" or mode not in ("checkpoints", "tasks"):
                            recorder.on_part(namespace, mode, data)
                        await self._wait_for_room()
            finally:
                if options["durability"] == "exit" or states.root is None:
                    await _use_stored_state(graph, config, states)

    async def _has_begun(self, claim: Claim) -> bool:
        """Whether an earlier attempt came so far as to say that the run runs."""

        async def ask() -> bool:
            async with self.pool.connection() as connection:
                cursor = await connection.execute(_HAS_BEGUN, (claim.run_id,))
                return await cursor.fetchone() is not None

        return await retried(ask)

    async def _wait_for_room(self) -> None:
        """Back-pressure: the graph goes on when the database has caught up."""
        while self.is_full():  # noqa: ASYNC110 - the writer lives in another loop, and this is rare
            await asyncio.sleep(_FULL_PAUSE_SECONDS)

    async def _left_open(
        self, claim: Claim, plan: Plan
    ) -> tuple[set[Namespace], list[tuple[Namespace, str]]]:
        if not plan.tokens:
            return set(), []
        async with self.pool.connection() as connection:
            cursor = await connection.execute(
                _LEFT_OPEN, {"run_id": claim.run_id, "thread_id": claim.thread_id}
            )
            return open_parts(await cursor.fetchall())

    async def _resume(self, saver: FencedSaver, claim: Claim, config: RunnableConfig) -> bool:
        """Whether the newest checkpoint is this run's own, so that it goes on from there without its input."""
        ids = {"thread_id": claim.thread_id, "run_id": claim.run_id}
        async with self.pool.connection() as connection:
            await connection.execute(_DROP_ORPHANS, ids)
        newest = await saver.aget_tuple({"configurable": {"thread_id": claim.thread_id, "checkpoint_ns": ""}})
        if newest is None or newest.metadata.get("run_id") != claim.run_id:
            return False
        for key in ("checkpoint_id", "checkpoint_map"):
            config["configurable"].pop(key, None)
        return True


async def _parts(
    graph: Graph,
    given: Any,
    config: RunnableConfig,
    plan: Plan,
    options: dict[str, Any],
    recorder: Recorder,
    injection: Injection,
) -> AsyncGenerator[tuple[tuple[str, ...], str, Any], None]:
    """The graph's stream as (namespace, mode, data)."""
    modes: Any = list(plan.graph_modes)
    if not plan.langchain_events:
        async with contextlib.aclosing(injection.stream(graph, given, config, plan, options)) as parts:
            async for part in parts:
                yield part
        return
    root_id = str(config["run_id"])
    events = graph.astream_events(given, config, version="v2", stream_mode=modes, subgraphs=True, **options)
    async for event in events:
        if event["event"] == "on_chain_stream" and event["run_id"] == root_id:
            yield event["data"]["chunk"]
        else:
            recorder.on_langchain_event(dict(event))


async def _use_stored_state(graph: Graph, config: RunnableConfig, states: StateTracker) -> None:
    """The state that was stored last, for runs whose stream did not show it."""
    configurable = {key: config["configurable"][key] for key in ("thread_id", "checkpoint_ns")}
    snapshot = await graph.aget_state({"configurable": configurable})
    if snapshot.config["configurable"].get("checkpoint_id"):
        states.use(snapshot)


def _failed(error: BaseException, states: StateTracker, recorder: Recorder) -> Settlement:
    message = str(error)[:_MAX_MESSAGE]
    described = {"error": type(error).__name__, "message": message}
    states.on_failure(error)
    recorder.end("failed", described)
    return Settlement("error", "error", dump_json(described).decode())
