"""From a graph's stream to rows of the record (docs/architecture/streams.md, What is recorded)."""

from collections.abc import Mapping
from typing import Any

import orjson

from slipway_runtime.lifecycle import Change, NestedGraphs
from slipway_runtime.message_events import Event, MessageTranslator
from slipway_runtime.plan import Plan
from slipway_runtime.records import RunRecord
from slipway_runtime.serialization import dump_json, message_to_dict
from slipway_runtime.states import StateTracker

Namespace = tuple[str, ...]

# Names of rows which are not classic stream modes.
RUNNING = "running"
ENDED = "ended"
INPUT_REQUESTED = "input.requested"
LIFECYCLE = "lifecycle"
CHECKPOINT = "checkpoint"

_ABANDONED = "The worker died; this message is generated again."


class Recorder:
    """Takes the parts of `astream` in order. One per attempt."""

    def __init__(self, plan: Plan, record: RunRecord, states: StateTracker, graph_name: str) -> None:
        self._plan = plan
        self._record = record
        self._states = states
        self._graph_name = graph_name
        self._messages = MessageTranslator()
        self._children = NestedGraphs()
        # Values come just before the checkpoint that holds them, clients want them the other way round.
        self._held_values: tuple[Namespace, Any] | None = None

    def begin(self, *, again: bool = False) -> None:
        """`again`: an earlier attempt has recorded the run's beginning."""
        data = {"attempt": self._record.attempt, "graph_name": self._graph_name, "again": again}
        self._record.append(RUNNING, (), dump_json(data))

    def take_over(self, running: set[Namespace], messages: list[tuple[Namespace, str]]) -> None:
        """What an attempt that died left open: nested graphs go on, messages begin again under another id."""
        self._children = NestedGraphs(running)
        for namespace, message_id in messages:
            self._put_messages(
                namespace, None, None, [{"event": "error", "id": message_id, "message": _ABANDONED}]
            )

    def on_part(self, namespace: Namespace, mode: str, data: Any) -> None:
        """One part of the stream."""
        if mode == "values":
            self._release_values()
            self._held_values = (namespace, data)
            return
        if mode == "checkpoints":
            self._on_checkpoint(namespace, data)
            return
        self._release_values()
        if mode == "messages":
            self._on_message(namespace, *data)
        elif mode == "tools":
            if self._is_recorded(namespace):
                self._record.append(mode, namespace, dump_json(data))
        elif mode == "tasks":
            self._on_task(namespace, data)
        else:
            self._put(mode, namespace, data)

    def on_langchain_event(self, event: dict[str, Any]) -> None:
        """One event of `astream_events`, for the classic mode `events`."""
        self._record.append("events", (), dump_json(event))

    def end(self, event: str, error: dict[str, str] | None = None) -> None:
        """The last rows of the run. `event`: completed, failed or interrupted."""
        self._record.begin_end()
        self.pause()
        self._put_changes(self._children.on_end(event))
        root = self._states.root
        if event == "interrupted" and root is not None:
            for found in root.interrupts.values():
                for interrupt in found:
                    self._record.append(INPUT_REQUESTED, (), dump_json(interrupt))
        end = {"status": "error" if error else "success", "event": event, "error": error}
        self._record.append(ENDED, (), dump_json(end))

    def pause(self) -> None:
        """The attempt stops: what it saw last is recorded. The run may go on elsewhere, or be settled."""
        self._release_values()
        for namespace, events in self._messages.on_end():
            self._put_messages(namespace, None, None, events)
        self._states.put_all()

    def _on_checkpoint(self, namespace: Namespace, payload: dict[str, Any]) -> None:
        held = self._held_values
        values = dump_json(payload["values"])
        if held is not None and held[0] == namespace and _same(held[1], payload["values"]):
            self._held_values = None
        else:
            held = None
            self._release_values()
        self._put("checkpoints", namespace, payload)
        if self._plan.protocol:
            self._record.append(CHECKPOINT, namespace, dump_json(_light(payload)))
        if held is not None and self._is_recorded(namespace):
            self._record.append("values", namespace, values)
        self._states.on_checkpoint(payload, values)

    def _on_task(self, namespace: Namespace, task: dict[str, Any]) -> None:
        self._states.on_task(namespace, task)
        starts = "triggers" in task
        changes = self._children.on_task_start(namespace, task) if starts else []
        self._put_changes(changes)
        if not starts:
            for place, events in self._messages.on_task_end(namespace, task["id"]):
                self._put_messages(place, None, None, events)
        self._put("tasks", namespace, task)
        if not starts:
            self._put_changes(self._children.on_task_end(namespace, task))

    def _on_message(self, namespace: Namespace, message: Any, metadata: dict[str, Any]) -> None:
        if self._is_recorded(namespace):
            events = self._messages.on_message(namespace, message, metadata)
            self._put_messages(namespace, message, metadata, events)

    def _put_messages(
        self, namespace: Namespace, message: Any, metadata: Mapping[str, Any] | None, events: list[Event]
    ) -> None:
        """One row per chunk: the chunk itself for classic streams, and the protocol's events that it stands for."""
        data: dict[str, Any] = {"events": events}
        if message is not None:
            data["chunk"] = message_to_dict(message)
            data["metadata"] = metadata
        if events or message is not None:
            self._record.append("messages", namespace, dump_json(data), max(1, len(events)))

    def _put_changes(self, changes: list[Change]) -> None:
        if self._plan.tokens:
            for namespace, data in changes:
                if self._is_recorded(namespace):
                    self._record.append(LIFECYCLE, namespace, dump_json(data))

    def _put(self, mode: str, namespace: Namespace, data: Any) -> None:
        if mode in self._plan.recorded and self._is_recorded(namespace):
            self._record.append(mode, namespace, dump_json(data))

    def _release_values(self) -> None:
        if self._held_values is not None:
            namespace, data = self._held_values
            self._held_values = None
            if self._is_recorded(namespace):
                self._record.append("values", namespace, dump_json(data))

    def _is_recorded(self, namespace: Namespace) -> bool:
        return not namespace or self._plan.subgraphs


def open_parts(rows: list[dict[str, Any]]) -> tuple[set[Namespace], list[tuple[Namespace, str]]]:
    """What earlier attempts left open, from their rows `lifecycle` and `messages`: namespaces, and messages."""
    running: dict[Namespace, None] = {}
    messages: dict[tuple[Namespace, str], None] = {}
    for row in rows:
        namespace = tuple(row["namespace"])
        data = orjson.loads(row["data"]) if isinstance(row["data"], (str, bytes)) else row["data"]
        if row["event"] == LIFECYCLE:
            if data["event"] == "started":
                running[namespace] = None
            else:
                running.pop(namespace, None)
            continue
        for event in data["events"]:
            if event["event"] == "message-start":
                messages[namespace, event["id"]] = None
            elif event["event"] in ("message-finish", "error"):
                messages.pop((namespace, event["id"]), None)
    return set(running), list(messages)


def _light(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What the protocol says of a checkpoint."""
    parent = (payload.get("parent_config") or {}).get("configurable", {}).get("checkpoint_id")
    return {
        "id": payload["config"]["configurable"]["checkpoint_id"],
        **({"parent_id": parent} if parent else {}),
        "step": payload["metadata"].get("step"),
        "source": payload["metadata"].get("source"),
    }


def _same(values: Any, state: Any) -> bool:
    """Whether a `values` part holds the very objects of a checkpoint, so that both have one JSON."""
    if not isinstance(values, dict) or not isinstance(state, dict) or values.keys() != state.keys():
        return False
    return all(values[key] is state[key] for key in values)
