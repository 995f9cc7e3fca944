"""JSON of whatever a graph puts into its state or its stream. Never fails: what has no JSON form gets a text."""

import base64
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from langchain_core.messages import BaseMessage
from langgraph.types import Command, Send

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
_MAX_DEPTH = 100
_ESCAPE = re.compile(rb"\\(?:u0000|.)")
_NUL = b"\\u0000"


def dump_json(value: Any) -> bytes:
    """JSON text of `value`, without NUL characters, which PostgreSQL cannot hold in a document."""
    try:
        text = orjson.dumps(value, default=to_plain, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError):
        # Integers beyond 64 bits, lone surrogates, cycles, depth: rare, so the slow way is only taken here.
        plain = _copy(value, 0, set())
        text = json.dumps(plain, ensure_ascii=True, allow_nan=True, default=_text_of).encode()
        text = _finite(text)
    if _NUL in text:
        text = _ESCAPE.sub(lambda found: b"\\ufffd" if found.group() == _NUL else found.group(), text)
    return text


def to_plain(value: Any) -> Any:
    """The next plainer form of an object that JSON does not know; a text at last."""
    if isinstance(value, BaseMessage):
        return message_to_dict(value)
    if isinstance(value, Command):
        return {
            "lg_name": "Command",
            "update": value.update,
            "resume": value.resume,
            "goto": value.goto,
            "graph": value.graph,
        }
    if isinstance(value, Send):
        return {"node": value.node, "input": value.arg}
    for convert in (_from_dataclass, _from_model, _from_collection):
        try:
            plain = convert(value)
        except Exception:  # user code: a property or a model's serializer may raise anything
            continue
        if plain is not _NO_FORM:
            return plain
    return _text_of(value)


def message_to_dict(message: BaseMessage) -> dict[str, Any]:
    """A message as clients read it: flat, its `type` beside its `content`."""
    plain = message.model_dump()
    if plain.get("type") == "AIMessageChunk":
        plain.pop("chunk_position", None)
    return plain


_NO_FORM: Any = object()


def _from_dataclass(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return _NO_FORM


def _from_model(value: Any) -> Any:
    dump: Callable[[], Any] | None = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump()
    if hasattr(value, "_asdict") and not isinstance(value, type):
        return value._asdict()
    return _NO_FORM


def _from_collection(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)) or type(value).__name__ in ("deque", "dict_keys", "dict_values"):
        return list(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else _NO_FORM


def _text_of(value: Any) -> str:
    if isinstance(value, BaseException):
        return repr(value)
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _copy(value: Any, depth: int, above: set[int]) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if depth > _MAX_DEPTH or id(value) in above:
        return f"<{type(value).__name__}>"
    above.add(id(value))
    try:
        if isinstance(value, dict):
            return {_copy_key(key): _copy(item, depth + 1, above) for key, item in value.items()}
        if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
            return [_copy(item, depth + 1, above) for item in value]
        try:
            return orjson.loads(orjson.dumps(value))
        except (TypeError, ValueError, RecursionError):
            return _copy(to_plain(value), depth + 1, above)
    finally:
        above.discard(id(value))


def _copy_key(key: Any) -> str:
    text = key if isinstance(key, str) else _text_of(key)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _finite(text: bytes) -> bytes:
    """NaN and infinities are null, as orjson writes them."""
    if b"NaN" not in text and b"Infinity" not in text:
        return text
    return json.dumps(json.loads(text, parse_constant=lambda _: None)).encode()
