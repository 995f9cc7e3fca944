"""Messages that clients put into a run which is under way (docs/architecture/streams.md, Injecting)."""

import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.types import Command

from slipway_runtime.claims import Claim
from slipway_runtime.graphs import Graph
from slipway_runtime.messages import NOTIFY_CHANNEL
from slipway_runtime.plan import Plan
from slipway_runtime.pools import HomePool
from slipway_runtime.saver import retried
from slipway_runtime.states import StateTracker

try:
    from langgraph.errors import GraphDrained
    from langgraph.runtime import RunControl

    _CAN_PAUSE = True
except (
    ImportError
):  # langgraph before 1.2 cannot be stopped between two steps: the messages' own runs carry them
    _CAN_PAUSE = False

log = logging.getLogger(__name__)

Part = tuple[tuple[str, ...], str, Any]

_CHANNEL = "messages"
_REASON = "slipway: input was injected"
# Of a checkpoint's writes, those that langgraph applies before the next step, as it does a `Command(update=...)`.
_BEFORE_THE_STEP = "00000000-0000-0000-0000-000000000000"

_WAITS = """
SELECT EXISTS (SELECT FROM runs WHERE thread_id = %(thread_id)s AND inject AND status = 'pending') AS found
"""
_LOCK_THREAD = "SELECT FROM threads WHERE thread_id = %(thread_id)s FOR NO KEY UPDATE"
_FENCE = "SELECT slipway_fence(%(run_id)s, %(attempt)s)"
_TAKE = """
UPDATE runs SET status = 'success', taken_by = %(run_id)s, ended_at = now(), updated_at = now()
WHERE thread_id = %(thread_id)s AND inject AND status = 'pending'
RETURNING run_id, position, kwargs -> 'input' -> 'messages' AS messages
"""


@dataclass
class _Step:
    """Which tasks of the root graph's step still run."""

    running: set[str] = field(default_factory=set)

    def is_ended_by(self, part: Part) -> bool:
        namespace, mode, data = part
        if mode == "checkpoints" and not namespace:
            # A step begins. Of one that was resumed, tasks that had ended before may not have been told of.
            self.running.clear()
        if mode != "tasks" or namespace:
            return False
        if "triggers" in data:
            self.running.add(data["id"])
            return False
        self.running.discard(data["id"])
        return not self.running


@dataclass(frozen=True)
class Injection:
    """Runs a graph and lets it take up, between two of its steps, what was injected meanwhile. One per attempt.

    Each injected message is a run in the thread's queue. Taking it ends that run and stores the message with the
    checkpoint, in one transaction behind the fence; so it is in the state once, or its own run brings it there.
    """

    home: HomePool
    claim: Claim
    states: StateTracker

    async def stream(
        self, graph: Graph, given: Any, config: RunnableConfig, plan: Plan, options: dict[str, Any]
    ) -> AsyncGenerator[Part, None]:
        """The graph's `astream`, as (namespace, mode, data), over all its pauses."""
        modes: Any = list(plan.graph_modes)
        if not self._applies(graph, plan, options):
            async for part in graph.astream(given, config, stream_mode=modes, subgraphs=True, **options):
                yield part
            return
        while True:
            control, step = RunControl(), _Step()
            parts: Any = graph.astream(
                given, config, stream_mode=modes, subgraphs=True, control=control, **options
            )
            try:
                async with contextlib.aclosing(parts):
                    async for part in parts:
                        yield part
                        # Only now: a graph below the root, which sees the request too, must not be stopped half-way.
                        if step.is_ended_by(part) and await self._is_asked():
                            control.request_drain(_REASON)
                return
            except GraphDrained:
                if control.drain_reason != _REASON:
                    raise
            if not self._waits_for_tools():
                await self.home.run(retried(self._take))
            given, config = None, _continued(config)

    def _applies(self, graph: Graph, plan: Plan, options: Mapping[str, Any]) -> bool:
        return (
            _CAN_PAUSE
            and plan.protocol
            and options["durability"] != "exit"
            and _CHANNEL in getattr(graph, "channels", {})
        )

    async def _is_asked(self) -> bool:
        async def ask() -> bool:
            async with self.home.pool.connection() as connection:
                cursor = await connection.execute(_WAITS, {"thread_id": self.claim.thread_id})
                row = await cursor.fetchone()
            return bool(row and row["found"])

        return await self.home.run(retried(ask))

    def _waits_for_tools(self) -> bool:
        """Whether the newest answer of the model calls tools that have no result yet: nothing may come in between."""
        root = self.states.root
        messages = orjson.loads(root.values).get(_CHANNEL) if root is not None else None
        called: set[str] = set()
        for message in messages if isinstance(messages, list) else []:
            if isinstance(message, dict):
                called |= {call["id"] for call in message.get("tool_calls") or () if call.get("id")}
                called.discard(message.get("tool_call_id") or "")
        return bool(called)

    async def _take(self) -> None:
        """Move what was injected into the run: it becomes part of its newest checkpoint.

        Raises:
            psycopg.Error: the fence refused, or PostgreSQL is away.
        """
        claim, root = self.claim, self.states.root
        assert root is not None, "a step has ended"
        ids = {"thread_id": claim.thread_id, "run_id": claim.run_id, "attempt": claim.attempt}
        place: RunnableConfig = {
            "configurable": {
                "thread_id": claim.thread_id,
                "checkpoint_ns": "",
                "checkpoint_id": root.checkpoint_id,
            }
        }
        async with self.home.pool.connection() as connection, connection.transaction():
            await connection.execute(_LOCK_THREAD, ids)
            await connection.execute(_FENCE, ids)
            rows = await (await connection.execute(_TAKE, ids)).fetchall()
            messages = [
                message
                for row in sorted(rows, key=lambda row: int(row["position"]))
                for message in row["messages"]
            ]
            if messages:
                await AsyncPostgresSaver(connection).aput_writes(
                    place, [(_CHANNEL, messages)], _BEFORE_THE_STEP
                )
            await connection.execute("SELECT pg_notify(%s, %s)", (NOTIFY_CHANNEL, claim.thread_id))
        for row in rows:
            log.info("input_injected run_id=%s taken_from=%s", claim.run_id, row["run_id"])


async def injected_input(graph: Graph, config: RunnableConfig, given: Any) -> Any:
    """What the run of a message that no other run took gives to the graph: the message, as an input.

    Where the thread waits for an answer, an input would start the graph anew and drop the question. There the message
    only joins the state: the graph asks again, with the same interrupt.
    """
    place: RunnableConfig = {
        "configurable": {"thread_id": config["configurable"]["thread_id"], "checkpoint_ns": ""}
    }
    snapshot = await graph.aget_state(place)
    asks = any(task.interrupts for task in snapshot.tasks)
    return Command(update=given) if asks else given


def _continued(config: RunnableConfig) -> RunnableConfig:
    """The same run, from its newest checkpoint; tracers know each call of a graph by an id of its own."""
    configurable = {
        key: value
        for key, value in config["configurable"].items()
        if key not in ("checkpoint_id", "checkpoint_map")
    }
    return {**config, "configurable": configurable, "run_id": uuid4()}
