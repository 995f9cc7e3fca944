"""The public ThreadState of every checkpoint (agent server contract §3.3), kept as the graph moves on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from langgraph.types import StateSnapshot

from slipway_runtime.records import RunRecord, Snapshot, StateRow
from slipway_runtime.serialization import dump_json

_PUSH = "__pregel_push"
_PULL = "__pregel_pull"
_EMPTY = b"{}"


@dataclass
class PublicState:
    """One checkpoint's state; `values` is JSON, encoded when the checkpoint was made: graphs mutate what they hold."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    values: bytes
    next: list[str]
    tasks: dict[str, dict[str, Any]]
    metadata: dict[str, Any]
    created_at: str
    changed: bool = field(default=True, compare=False)

    @property
    def interrupts(self) -> dict[str, list[dict[str, Any]]]:
        """Open interrupts by task id, as the thread object shows them."""
        return {task_id: task["interrupts"] for task_id, task in self.tasks.items() if task["interrupts"]}

    @property
    def is_interrupted(self) -> bool:
        """Whether the graph stopped here with work left: at an interrupt, or before or after a node."""
        return bool(self.next)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.values.decode(), dump_json(self.interrupts).decode())

    def row(self) -> StateRow:
        metadata = dump_json(self.metadata)
        state = {
            "values": orjson.Fragment(self.values),
            "next": self.next,
            "tasks": list(self.tasks.values()),
            "metadata": orjson.Fragment(metadata),
            "created_at": self.created_at,
            "checkpoint": self._checkpoint(self.checkpoint_id),
            "parent_checkpoint": self._checkpoint(self.parent_checkpoint_id)
            if self.parent_checkpoint_id
            else None,
            "interrupts": [interrupt for found in self.interrupts.values() for interrupt in found],
            "checkpoint_id": self.checkpoint_id,
            "parent_checkpoint_id": self.parent_checkpoint_id,
        }
        return StateRow(
            self.checkpoint_ns,
            self.checkpoint_id,
            self.parent_checkpoint_id,
            metadata.decode(),
            dump_json(state).decode(),
        )

    def _checkpoint(self, checkpoint_id: str) -> dict[str, str]:
        return {
            "thread_id": self.thread_id,
            "checkpoint_ns": self.checkpoint_ns,
            "checkpoint_id": checkpoint_id,
        }


class StateTracker:
    """Follows the `checkpoints` and `tasks` streams of one attempt and records a state per checkpoint."""

    def __init__(self, record: RunRecord, metadata: Mapping[str, Any]) -> None:
        self._record = record
        self._metadata = dict(metadata)
        self._newest: dict[str, PublicState] = {}

    @property
    def root(self) -> PublicState | None:
        """The newest state of the root graph; None before its first checkpoint."""
        return self._newest.get("")

    def on_checkpoint(self, payload: Mapping[str, Any], values: bytes) -> None:
        """A checkpoint was made. `values`: its values as JSON."""
        configurable = payload["config"]["configurable"]
        if configurable.get("thread_id") != self._record.thread_id:
            return
        namespace = configurable.get("checkpoint_ns", "")
        self._put(namespace)
        parent = (payload.get("parent_config") or {}).get("configurable", {}).get("checkpoint_id")
        self._newest[namespace] = PublicState(
            thread_id=self._record.thread_id,
            checkpoint_ns=namespace,
            checkpoint_id=configurable["checkpoint_id"],
            parent_checkpoint_id=parent,
            values=values,
            next=list(payload["next"]),
            tasks={task["id"]: _task(self._record.thread_id, task) for task in payload["tasks"]},
            metadata={**self._metadata, **payload["metadata"]},
            created_at=datetime.now(UTC).isoformat(),
        )
        self._put(namespace)

    def on_task(self, namespace: tuple[str, ...], payload: Mapping[str, Any]) -> None:
        """A task began (`triggers`), or ended (`result`)."""
        state = self._newest.get("|".join(namespace))
        if state is None:
            return
        task = state.tasks.get(payload["id"])
        if task is None:
            # A call of a @task, or a Send of this very step: not in the checkpoint's list.
            if "triggers" in payload and _PUSH in payload["triggers"]:
                state.tasks[payload["id"]] = task = _task(self._record.thread_id, payload)
            else:
                return
        if "triggers" in payload:
            if _PUSH in payload["triggers"]:
                task["path"] = [
                    _PUSH,
                    sum(other["path"][0] == _PUSH for other in state.tasks.values()),
                    False,
                ]
        else:
            task["result"] = _frozen(payload["result"]) if payload["result"] is not None else None
            task["error"] = repr(payload["error"]) if payload["error"] is not None else None
            task["interrupts"] = [_frozen(interrupt) for interrupt in payload["interrupts"]]
        state.changed = True

    def on_failure(self, error: BaseException) -> None:
        """The graph failed: the tasks that have no result carry the error, as they do in langgraph's own state."""
        if self.root is not None:
            unfinished = [
                task for task in self.root.tasks.values() if task["result"] is None and not task["error"]
            ]
            if len(unfinished) == 1:
                unfinished[0]["error"] = repr(error)
                self.root.changed = True

    def use(self, snapshot: StateSnapshot) -> None:
        """Take the root's state from the graph itself: where checkpoints are only stored at the end."""
        self._newest[""] = state_of(snapshot, self._record.thread_id)

    def put_all(self) -> None:
        """Record what changed since it was last recorded, and the thread's snapshot."""
        for namespace in self._newest:
            self._put(namespace)
        if self.root is not None:
            self._record.put_snapshot(self.root.snapshot())

    def _put(self, namespace: str) -> None:
        state = self._newest.get(namespace)
        if state is not None and state.changed:
            state.changed = False
            self._record.put_state(state.row())


def state_of(snapshot: StateSnapshot, thread_id: str) -> PublicState:
    """The public form of langgraph's own snapshot."""
    configurable = snapshot.config["configurable"]
    parent = (snapshot.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    tasks: dict[str, dict[str, Any]] = {}
    for task in snapshot.tasks:
        tasks[task.id] = {
            **_task(thread_id, {"id": task.id, "name": task.name, "state": task.state}),
            "path": list(task.path),
            "error": repr(task.error) if task.error else None,
            "interrupts": [_frozen({"value": found.value, "id": found.id}) for found in task.interrupts],
            "result": _frozen(task.result) if task.result is not None else None,
        }
    return PublicState(
        thread_id=thread_id,
        checkpoint_ns=configurable.get("checkpoint_ns", ""),
        checkpoint_id=configurable["checkpoint_id"],
        parent_checkpoint_id=parent,
        values=dump_json(snapshot.values) or _EMPTY,
        next=list(snapshot.next),
        tasks=tasks,
        metadata=dict(snapshot.metadata or {}),
        created_at=snapshot.created_at or datetime.now(UTC).isoformat(),
    )


def _task(thread_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
    state = task.get("state")
    checkpoint = None
    if isinstance(state, dict):
        namespace = state.get("configurable", {}).get("checkpoint_ns")
        checkpoint = {"thread_id": thread_id, "checkpoint_ns": namespace} if namespace else None
    return {
        "id": task["id"],
        "name": task["name"],
        "path": [_PULL, task["name"]],
        "error": repr(task["error"]) if task.get("error") else None,
        "interrupts": [_frozen(interrupt) for interrupt in task.get("interrupts", ())],
        "checkpoint": checkpoint,
        "state": None,
        "result": None,
    }


def _frozen(value: Any) -> orjson.Fragment:
    """JSON as of now."""
    return orjson.Fragment(dump_json(value))
