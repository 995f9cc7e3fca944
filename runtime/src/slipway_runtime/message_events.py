"""From langchain's message chunks to the message events of the streaming protocol (streaming contract §1.5, §6)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import add_usage

Event = dict[str, Any]
Namespace = tuple[str, ...]

_ROLES: tuple[tuple[type[BaseMessage], str], ...] = (
    (AIMessage, "ai"),
    (HumanMessage, "human"),
    (SystemMessage, "system"),
    (ToolMessage, "tool"),
)
_DELTAS = {"text": "text-delta", "reasoning": "reasoning-delta"}


@dataclass
class _Block:
    """A content block under way. `content` grows; tool calls keep their arguments as the text so far."""

    index: int
    content: dict[str, Any]


@dataclass
class _Message:
    message_id: str
    task_id: str
    blocks: dict[Any, _Block] = field(default_factory=dict)
    usage: Any = None


class MessageTranslator:
    """Follows the messages of one attempt. Each call returns the events that a chunk stands for, in order."""

    def __init__(self) -> None:
        self._open: dict[tuple[Namespace, str], _Message] = {}
        self._finished: set[tuple[Namespace, str]] = set()

    def on_message(
        self, namespace: Namespace, message: BaseMessage, metadata: Mapping[str, Any]
    ) -> list[Event]:
        """A chunk of a message, or a whole one that its model did not stream."""
        role = next((role for kind, role in _ROLES if isinstance(message, kind)), None)
        key = (namespace, message.id or "")
        if role is None or key in self._finished:
            return []
        events: list[Event] = []
        known = self._open.get(key)
        if known is None:
            known = self._open[key] = _Message(message.id or "", _task_id(metadata))
            events.append(_start(role, message, metadata))
        elif not isinstance(message, AIMessageChunk):
            # The whole of what was streamed: its parts are known.
            return self._finish(key)
        for block in _blocks(message):
            events += _on_block(known, block)
        known.usage = (
            add_usage(known.usage, getattr(message, "usage_metadata", None))
            if _has_usage(message)
            else known.usage
        )
        if not isinstance(message, AIMessageChunk) or message.chunk_position == "last":
            events += self._finish(key)
        # Messages of parallel nodes interleave: each event says whose it is.
        return [{**event, "id": message.id} for event in events]

    def on_task_end(self, namespace: Namespace, task_id: str) -> list[tuple[Namespace, list[Event]]]:
        """A task of `namespace` ended: so did the messages that it streamed."""
        keys = [
            key for key, message in self._open.items() if key[0] == namespace and message.task_id == task_id
        ]
        return [(key[0], self._finish(key)) for key in keys]

    def on_end(self) -> list[tuple[Namespace, list[Event]]]:
        """The attempt ended: close whatever is still open, deepest namespace first."""
        keys = sorted(self._open, key=lambda key: -len(key[0]))
        return [(key[0], self._finish(key)) for key in keys]

    def _finish(self, key: tuple[Namespace, str]) -> list[Event]:
        message = self._open.pop(key)
        self._finished.add(key)
        events: list[Event] = [
            {"event": "content-block-finish", "index": block.index, "content": _whole(block.content)}
            for block in message.blocks.values()
        ]
        finish: Event = {"event": "message-finish"}
        if message.usage is not None:
            finish["usage"] = message.usage
        return [{**event, "id": message.message_id} for event in [*events, finish]]


def _start(role: str, message: BaseMessage, metadata: Mapping[str, Any]) -> Event:
    shown = {
        "provider": metadata.get("ls_provider"),
        "model": metadata.get("ls_model_name"),
        "model_type": metadata.get("ls_model_type"),
        "run_id": metadata.get("run_id"),
        "thread_id": metadata.get("thread_id"),
    }
    return {
        "event": "message-start",
        "role": role,
        "id": message.id,
        **({"tool_call_id": message.tool_call_id} if isinstance(message, ToolMessage) else {}),
        "metadata": {name: value for name, value in shown.items() if value is not None},
    }


def _blocks(message: BaseMessage) -> list[dict[str, Any]]:
    """A message's content as standard blocks. Plain text, by far the most, takes the short way."""
    calls = getattr(message, "tool_call_chunks", None) or getattr(message, "tool_calls", None)
    if isinstance(message.content, str) and not calls and not message.additional_kwargs:
        return [{"type": "text", "text": message.content}] if message.content else []
    return [dict(block) for block in message.content_blocks]


def _on_block(message: _Message, block: dict[str, Any]) -> list[Event]:
    kind = block.get("type", "non_standard")
    if kind == "tool_call_chunk":
        return _on_tool_call_chunk(message, block)
    if kind not in _DELTAS:
        return _on_whole_block(message, block)
    key = (kind, block.get("index"))
    text = block.get(kind) or ""
    events: list[Event] = []
    known = message.blocks.get(key)
    if known is None:
        known = message.blocks[key] = _Block(len(message.blocks), {"type": kind, kind: ""})
        events.append({"event": "content-block-start", "index": known.index, "content": dict(known.content)})
    if text:
        known.content[kind] += text
        delta = {"type": _DELTAS[kind], kind: text}
        events.append({"event": "content-block-delta", "index": known.index, "delta": delta})
    return events


def _on_tool_call_chunk(message: _Message, block: dict[str, Any]) -> list[Event]:
    """Arguments so far, always from their beginning: clients replace the block's fields with what a delta says."""
    place = block.get("index")
    key = ("tool", place if place is not None else block.get("id"))
    events: list[Event] = []
    known = message.blocks.get(key)
    if known is None:
        content = {"type": "tool_call_chunk", "id": block.get("id"), "name": block.get("name"), "args": ""}
        known = message.blocks[key] = _Block(len(message.blocks), content)
        events.append({"event": "content-block-start", "index": known.index, "content": dict(content)})
    content = known.content
    content["id"] = content["id"] or block.get("id")
    if block.get("name") and not content["name"]:
        content["name"] = block["name"]
    if block.get("args"):
        content["args"] += block["args"]
        delta = {"type": "block-delta", "fields": dict(content)}
        events.append({"event": "content-block-delta", "index": known.index, "delta": delta})
    return events


def _on_whole_block(message: _Message, block: dict[str, Any]) -> list[Event]:
    key = (block.get("type"), block.get("index"), block.get("id"), len(message.blocks))
    content = {name: value for name, value in block.items() if name != "index"}
    known = message.blocks[key] = _Block(len(message.blocks), content)
    return [{"event": "content-block-start", "index": known.index, "content": content}]


def _whole(content: dict[str, Any]) -> dict[str, Any]:
    """A finished block: a tool call's arguments are parsed, or said to be invalid."""
    if content.get("type") != "tool_call_chunk":
        return content
    call = {"id": content["id"], "name": content["name"]}
    try:
        arguments = json.loads(content["args"] or "{}")
    except ValueError as error:
        return {"type": "invalid_tool_call", **call, "args": content["args"], "error": str(error)}
    return {"type": "tool_call", **call, "args": arguments}


def _has_usage(message: BaseMessage) -> bool:
    return getattr(message, "usage_metadata", None) is not None


def _task_id(metadata: Mapping[str, Any]) -> str:
    """Id of the task that streams: the last segment of its namespace is `node:id`."""
    return str(metadata.get("langgraph_checkpoint_ns", "")).rsplit("|", 1)[-1].rsplit(":", 1)[-1]
