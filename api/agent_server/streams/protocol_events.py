"""Events of the streaming protocol from rows of the record (streaming contract §1.3, §1.5).

Stateless: what a row becomes depends on nothing but the row, so every replay, by any process, is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from psycopg.rows import DictRow

CHANNELS = ("values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom")
_INTERRUPT = "__interrupt__"
_AS_RECORDED = ("tools", "tasks", "lifecycle")


class Event(NamedTuple):
    """One event. `data` is JSON; `channels`: those that carry it."""

    seq: int
    method: str
    channels: tuple[str, ...]
    namespace: list[str]
    data: bytes
    node: str | None = None


@dataclass(frozen=True)
class Selection:
    """What a subscription wants (streaming contract §1.6). No namespaces: all of them, at any depth."""

    channels: frozenset[str]
    namespaces: tuple[tuple[str, ...], ...] = ()
    depth: int | None = None

    def matches(self, event: Event) -> bool:
        if self.channels.isdisjoint(event.channels):
            return False
        return not self.namespaces or any(
            self._matches(prefix, event.namespace) for prefix in self.namespaces
        )

    def _matches(self, prefix: Sequence[str], namespace: Sequence[str]) -> bool:
        if len(namespace) < len(prefix):
            return False
        if self.depth is not None and len(namespace) - len(prefix) > self.depth:
            return False
        return all(_segment_matches(wanted, found) for wanted, found in zip(prefix, namespace, strict=False))


def events_of(row: DictRow) -> list[Event]:
    """The row's events in order."""
    event, seq, namespace = row["event"], row["seq"], row["namespace"]
    if event == "messages":
        return _messages(row)
    if event in _AS_RECORDED:
        return [Event(seq, event, (event,), namespace, row["data"].encode())]
    make = _ONE_TO_ONE.get(event)
    made = make(seq, namespace, row["data"]) if make else None
    return [made] if made else []


def encode(event: Event, timestamp_ms: int) -> bytes:
    """The event as JSON."""
    node = b',"node":' + orjson.dumps(event.node) if event.node is not None else b""
    return (
        b'{"type":"event","event_id":"%d","seq":%d,"method":"%s","params":{"namespace":%s,"timestamp":%d,"data":%s%s}}'
        % (
            event.seq,
            event.seq,
            event.method.encode(),
            orjson.dumps(event.namespace),
            timestamp_ms,
            event.data,
            node,
        )
    )


def timestamp_ms(row: DictRow) -> int:
    return int(row["created_at"].timestamp() * 1000)


def _messages(row: DictRow) -> list[Event]:
    data = orjson.loads(row["data"])
    events = data["events"]
    node = (data.get("metadata") or {}).get("langgraph_node")
    first = row["seq"] - len(events) + 1
    namespace = _message_namespace(row["namespace"], events)
    return [
        Event(first + place, "messages", ("messages",), namespace, orjson.dumps(event), node)
        for place, event in enumerate(events)
    ]


def _message_namespace(namespace: list[str], events: list[dict[str, Any]]) -> list[str]:
    """A tool's result belongs to its tool call: clients keep it apart from what the graph itself says."""
    if events and events[0].get("role") == "tool":
        return [*namespace, f"tools:{events[0]['tool_call_id']}"]
    return namespace


def _values(seq: int, namespace: list[str], data: str) -> Event:
    if _INTERRUPT in data:
        values = orjson.loads(data)
        if isinstance(values, dict):
            values.pop(_INTERRUPT, None)
        data = orjson.dumps(values).decode()
    return Event(seq, "values", ("values",), namespace, data.encode())


def _updates(seq: int, namespace: list[str], data: str) -> Event | None:
    """langgraph tells {node: delta}, usually of one node; its interrupts have a channel of their own."""
    updates = orjson.loads(data)
    if not isinstance(updates, dict) or _INTERRUPT in updates:
        return None
    if len(updates) == 1:
        [(node, values)] = updates.items()
        shown = {"node": node, "values": values}
        return Event(seq, "updates", ("updates",), namespace, orjson.dumps(shown), node)
    return Event(seq, "updates", ("updates",), namespace, orjson.dumps({"values": updates}))


def _custom(seq: int, namespace: list[str], data: str) -> Event:
    """A written `{"name", "payload"}` is a named event, everything else the payload of a plain one."""
    written = orjson.loads(data) if data.startswith("{") and '"payload"' in data else None
    if (
        isinstance(written, dict)
        and written.keys() == {"name", "payload"}
        and isinstance(written["name"], str)
    ):
        channels = ("custom", f"custom:{written['name']}")
        return Event(seq, "custom", channels, namespace, data.encode())
    return Event(seq, "custom", ("custom",), namespace, b'{"payload":%s}' % data.encode())


def _checkpoint(seq: int, namespace: list[str], data: str) -> Event:
    return Event(seq, "checkpoints", ("checkpoints",), namespace, data.encode())


def _input_requested(seq: int, namespace: list[str], data: str) -> Event:
    """The JavaScript client reads `payload`, the Python client `value`."""
    interrupt = orjson.loads(data)
    value = interrupt.get("value")
    shown = {"interrupt_id": interrupt["id"], "payload": value, "value": value}
    return Event(seq, "input.requested", ("input",), namespace, orjson.dumps(shown))


def _running(seq: int, namespace: list[str], data: str) -> Event | None:
    """A run begins once, however many attempts it takes."""
    begun = orjson.loads(data)
    # Older workers did not say whether an earlier attempt had told of it.
    if begun.get("again", begun["attempt"] > 1):
        return None
    shown = {"event": "running", "graph_name": begun["graph_name"]}
    return Event(seq, "lifecycle", ("lifecycle",), namespace, orjson.dumps(shown))


def _ended(seq: int, namespace: list[str], data: str) -> Event:
    end: dict[str, Any] = orjson.loads(data)
    shown = {"event": end["event"]}
    if end.get("error"):
        shown["error"] = end["error"]["message"] or end["error"]["error"]
    return Event(seq, "lifecycle", ("lifecycle",), namespace, orjson.dumps(shown))


_ONE_TO_ONE = {
    "values": _values,
    "updates": _updates,
    "custom": _custom,
    "checkpoint": _checkpoint,
    "input.requested": _input_requested,
    "running": _running,
    "ended": _ended,
}


def _segment_matches(wanted: str, found: str) -> bool:
    """Literally; or, wanted without a colon, by the node's name alone."""
    return wanted == found or (":" not in wanted and found.split(":", 1)[0] == wanted)
