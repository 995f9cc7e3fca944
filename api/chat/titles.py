"""What a conversation is called: the beginning of its first message (streaming contract §2.5)."""

from typing import Any

UNTITLED = "New conversation"
_MAX_CHARACTERS = 80


def title_of(first_input: Any, values: Any) -> str:
    """From the first run's input, or from the state of a thread that never ran."""
    for source in (first_input, values):
        messages = source.get("messages") if isinstance(source, dict) else None
        for message in messages if isinstance(messages, list) else []:
            if _is_human(message) and (text := _text(message.get("content")).strip()):
                return text[:_MAX_CHARACTERS]
    return UNTITLED


def _is_human(message: Any) -> bool:
    return isinstance(message, dict) and (message.get("type") or message.get("role")) in ("human", "user")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [
        block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    return " ".join(texts)
