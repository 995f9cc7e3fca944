"""Documents as key/value pairs, as the filter language sees them (trace contract §4.2, §4.3).

A key is the path of a scalar, joined by dots; elements of arrays count under the array's own path. A value is text:
strings as they are, numbers and booleans as JSON writes them. Nulls have no pair. The SQL function `slipway_pairs`
makes the same of a JSON text.
"""

from decimal import Decimal
from typing import Any

MAX_KEYS = 100
MAX_VALUE_LENGTH = 250
MAX_KEY_LENGTH = 500
_MAX_DEPTH = 100


def flatten(document: Any) -> dict[str, list[str]]:
    """Pairs of a JSON object: {path: values in order of first appearance, each once}. {} for anything else."""
    pairs: dict[str, list[str]] = {}
    if isinstance(document, dict):
        _collect(document, None, pairs, 0)
    return pairs


def _collect(value: Any, path: str | None, pairs: dict[str, list[str]], depth: int) -> None:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, member in value.items():
            # Cut at once: long keys, nested, would make paths far longer than the document.
            place = clean(key) if path is None else f"{path}.{clean(key)}"
            _collect(member, place[:MAX_KEY_LENGTH], pairs, depth + 1)
    elif isinstance(value, list):
        for element in value:
            _collect(element, path, pairs, depth + 1)
    elif value is not None and path is not None:
        _add(path, value, pairs)


def _add(key: str, value: Any, pairs: dict[str, list[str]]) -> None:
    values = pairs.get(key)
    if values is None:
        if len(pairs) >= MAX_KEYS:
            return
        values = pairs[key] = []
    text = scalar_text(value)[:MAX_VALUE_LENGTH]
    if text not in values and len(values) < MAX_KEYS:
        values.append(text)


def scalar_text(value: Any) -> str:
    """A scalar as filters compare it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return format(Decimal(text), "f") if "e" in text else text


def clean(text: str) -> str:
    """Without NUL characters, which PostgreSQL's text cannot hold."""
    return text.replace("\x00", "") if "\x00" in text else text
