"""JSON documents of runs: checked here, stored as the text that the client sent."""

import json
import re
from typing import Any

import orjson

from api.errors import InvalidError, TooLargeError

_SURROGATE = re.compile("[\ud800-\udfff]")
# Parsed, a document takes up to 100 times the memory of its text, and containers seconds of the interpreter's time.
_UNCOUNTED_BYTES = 1_000_000
MAX_CONTAINERS = 1_000_000
MAX_VALUES = 3_000_000


def read_json(
    data: bytes | bytearray | memoryview, what: str, *, max_values: int = MAX_VALUES
) -> tuple[Any, str]:
    """The value of a JSON text, and a text of it that PostgreSQL and every other reader accepts.

    What JavaScript and Python write beyond JSON (NaN, halves of surrogate pairs) becomes null or U+FFFD.

    Raises:
        InvalidError: it is not JSON.
        TooLargeError: it may hold more than `MAX_CONTAINERS` objects and arrays, or `max_values` values.
    """
    if len(data) > _UNCOUNTED_BYTES:
        _check_values(bytes(data), what, max_values)
    try:
        return orjson.loads(data), str(data, "utf-8")
    except orjson.JSONDecodeError as error:
        return _read_leniently(bytes(data), what, str(error))


def _check_values(data: bytes, what: str, max_values: int) -> None:
    """By the characters that begin values, also where they stand in strings: that is quick, and nearly right."""
    containers = data.count(b"[") + data.count(b"{")
    values = containers + data.count(b",")
    if containers > MAX_CONTAINERS or values > max_values:
        raise TooLargeError(
            f"{what} has too many values for one document: about {values}, of them {containers} objects and"
            f" arrays; at most {max_values} and {MAX_CONTAINERS}."
        )


def dump_json_text(value: Any, what: str) -> str:
    """JSON text of a parsed value.

    Raises:
        InvalidError: it holds what JSON cannot (an integer beyond 64 bits).
    """
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise InvalidError(f"{what}: {error}") from None


def _read_leniently(data: bytes, what: str, reason: str) -> tuple[Any, str]:
    try:
        value = json.loads(_SURROGATE.sub("\ufffd", data.decode()))
        value = orjson.loads(orjson.dumps(_without_surrogates(value)))
    except (ValueError, TypeError, RecursionError):
        raise InvalidError(f"{what} is not valid JSON: {reason}") from None
    return value, orjson.dumps(value).decode()


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_SURROGATE.sub("\ufffd", key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return float(value)
    return value
