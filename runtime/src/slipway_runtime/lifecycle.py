"""Which nested graphs run: `started` when one is first seen, its end when its task ends (streaming contract §1.5)."""

from collections.abc import Mapping
from typing import Any

Namespace = tuple[str, ...]
Change = tuple[Namespace, dict[str, Any]]


class NestedGraphs:
    """Follows the `tasks` stream of one attempt; returns the lifecycle events of child namespaces."""

    def __init__(self, running: set[Namespace] | None = None) -> None:
        # Those that an earlier attempt has started and that run again now: they are not started twice.
        self._running: dict[Namespace, None] = dict.fromkeys(running or ())
        self._tool_calls: dict[str, str] = {}

    def on_task_start(self, namespace: Namespace, task: Mapping[str, Any]) -> list[Change]:
        """A task began in `namespace`: if that is a graph not seen before, it has started."""
        tool_call = _tool_call_of(task.get("input"))
        if tool_call is not None:
            self._tool_calls[task["id"]] = tool_call
        if not namespace or namespace in self._running:
            return []
        self._running[namespace] = None
        node, _, task_id = namespace[-1].rpartition(":")
        data: dict[str, Any] = {
            "event": "started",
            "graph_name": (task.get("metadata") or {}).get("lc_agent_name") or node,
        }
        if (cause := self._tool_calls.get(task_id)) is not None:
            data["cause"] = {"type": "toolCall", "tool_call_id": cause}
        return [(namespace, data)]

    def on_task_end(self, namespace: Namespace, task: Mapping[str, Any]) -> list[Change]:
        """A task ended: so did the graphs below it, the deepest first."""
        self._tool_calls.pop(task["id"], None)
        depth = len(namespace)
        below = [
            running
            for running in self._running
            if len(running) > depth
            and running[:depth] == namespace
            and running[depth].rpartition(":")[2].split(":")[0] == task["id"]
        ]
        if task.get("interrupts"):
            return self._close(below, {"event": "interrupted"})
        if task.get("error") is not None:
            return self._close(below, {"event": "failed", "error": str(task["error"])})
        return self._close(below, {"event": "completed"})

    def on_end(self, event: str) -> list[Change]:
        """The run ended: whatever still runs ended with it, the deepest first."""
        return self._close(list(self._running), {"event": event})

    def _close(self, namespaces: list[Namespace], data: dict[str, Any]) -> list[Change]:
        for namespace in namespaces:
            del self._running[namespace]
        return [(namespace, data) for namespace in sorted(namespaces, key=lambda found: -len(found))]


def _tool_call_of(given: Any) -> str | None:
    """The tool call that a task answers: its input holds it, alone or in a list."""
    if isinstance(given, Mapping) and isinstance(given.get("tool_call"), Mapping):
        given = [given["tool_call"]]
    if isinstance(given, list):
        for call in given:
            if isinstance(call, Mapping) and isinstance(call.get("id"), str):
                return str(call["id"])
    return None
