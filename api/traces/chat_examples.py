"""Chat examples in OpenAI's fine-tuning format."""

from collections.abc import Mapping
from typing import Any

_ROLES = {"human": "user", "ai": "assistant", "function": "tool"}


def fine_tuning_messages(example: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The messages of an example's inputs and the answer of its outputs; None if it is no conversation."""
    inputs, outputs = example["inputs"] or {}, example["outputs"] or {}
    given = inputs.get("messages", inputs.get("input"))
    if not isinstance(given, list):
        return None
    answer = outputs.get("messages", outputs.get("output", outputs.get("message")))
    answers = answer if isinstance(answer, list) else [] if answer is None else [answer]
    messages = [_message(item) for item in (*given, *answers)]
    return None if None in messages else [message for message in messages if message]


def _message(item: Any) -> dict[str, Any] | None:
    """`{role, content}` of a message as OpenAI writes it, or as LangChain does: with a type, and data around it."""
    if not isinstance(item, dict):
        return None
    data = item["data"] if isinstance(item.get("data"), dict) else item
    role = item.get("role") or data.get("role") or item.get("type")
    if not isinstance(role, str) or "content" not in data:
        return None
    kept = {name: data[name] for name in ("name", "tool_calls", "tool_call_id") if data.get(name)}
    return {"role": _ROLES.get(role, role), "content": data["content"], **kept}
