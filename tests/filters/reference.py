"""What a filter means, said a second time: over rows as Python values, to hold the SQL against."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from storage.filters.fields import FIELDS, THREAD_KEYS, Kind
from storage.filters.pairs import flatten
from storage.filters.tree import And, Comparison, Filter, Not, Operator, Or, Search

Row = dict[str, Any]
Pair = dict[str, Any]


def matches(node: Filter, row: Row) -> bool:
    """Whether a row (columns of `trace_runs`, documents parsed, `feedback`: list of records) satisfies a filter."""
    match node:
        case And(items):
            return _all(items, row)
        case Or(items):
            return any(matches(item, row) for item in items)
        case Not(item):
            return not matches(item, row)
    return _all((node,), row)


def _all(items: tuple[Filter, ...], row: Row) -> bool:
    """Comparisons of keys and values of one document stand together, each key with the values after it."""
    groups: dict[str, list[list[Comparison | Search]]] = {}
    for item in items:
        source = _source(item)
        if source is None:
            if not (_single(item, row) if isinstance(item, Comparison | Search) else matches(item, row)):
                return False
            continue
        assert isinstance(item, Comparison | Search)
        started = groups.setdefault(source, [[]])
        if _is_key(item) and any(_is_key(member) for member in started[-1]):
            started.append([])
        started[-1].append(item)
    return all(_group(members, _pairs(source, row)) for source, found in groups.items() for members in found)


def _group(members: list[Comparison | Search], pairs: list[Pair]) -> bool:
    keys = [member for member in members if _is_key(member)]
    values = [member for member in members if not _is_key(member)]
    if keys and _negative(keys[0]):
        if any(not _holds(keys[0], pair) for pair in pairs):
            return False
        keys = []
    candidates = [pair for pair in pairs if all(_holds(key, pair) for key in keys)]
    positive = [value for value in values if not _negative(value)]
    if (keys or positive) and not any(all(_holds(value, pair) for value in positive) for pair in candidates):
        return False
    return all(_holds(value, pair) for value in values if _negative(value) for pair in candidates)


def _pairs(source: str, row: Row) -> list[Pair]:
    if source == "feedback":
        return list(row["feedback"])
    return [{"key": key, "value": text} for key, texts in flatten(row[source]).items() for text in texts]


def _holds(member: Comparison | Search, pair: Pair) -> bool:
    assert member.field is not None
    kind = FIELDS[member.field].kind
    name = {
        Kind.PAIR_KEY: "key",
        Kind.FEEDBACK_KEY: "key",
        Kind.PAIR_VALUE: "value",
        Kind.FEEDBACK_SCORE: "score",
    }
    value = pair[name.get(kind, FIELDS[member.field].column)]
    if isinstance(member, Search):
        return value is not None and all(word.lower() in value.lower() for word in member.words)
    return _compare(member.operator, value, member.value)


def _single(node: Comparison | Search, row: Row) -> bool:
    if isinstance(node, Search):
        return all(any(_contains(text, word) for text in _texts(node.field, row)) for word in node.words)
    field = FIELDS[node.field]
    special: dict[Kind, Callable[[], bool]] = {
        Kind.TAGS: lambda: _tags(node, row["tags"] or []),
        Kind.METADATA: lambda: _metadata(node, row["metadata"]),
        Kind.THREAD: lambda: _thread(node, row["metadata"]),
    }
    if field.kind in special:
        return special[field.kind]()
    return _compare(node.operator, _value(node, row), node.value)


def _value(node: Comparison, row: Row) -> Any:
    field = FIELDS[node.field]
    if field.kind == Kind.SECONDS:
        return _seconds(row["start_time"], row["end_time"])
    if field.kind == Kind.FIRST_TOKEN and isinstance(node.value, Decimal):
        return _seconds(row["start_time"], row["first_token_time"])
    return 1 if field.column == "1" else row[field.column]


def _compare(operator: Operator, value: Any, wanted: Any) -> bool:
    if wanted is None:
        return (value is None) == (operator == Operator.EQ)
    if operator == Operator.NEQ:
        return bool(value != wanted)
    if value is None:
        return False
    return {
        Operator.EQ: lambda: value == wanted,
        Operator.HAS: lambda: value == wanted,
        Operator.EXISTS: lambda: value == wanted,
        Operator.IN: lambda: value in wanted,
        Operator.GT: lambda: value > wanted,
        Operator.GTE: lambda: value >= wanted,
        Operator.LT: lambda: value < wanted,
        Operator.LTE: lambda: value <= wanted,
        Operator.LIKE: lambda: _like(value, wanted),
    }[operator]()


def _tags(node: Comparison, tags: list[str]) -> bool:
    if node.operator == Operator.IN:
        assert isinstance(node.value, tuple)
        return bool(set(node.value) & set(tags))
    return (node.value in tags) != (node.operator == Operator.NEQ)


def _metadata(node: Comparison, metadata: Any) -> bool:
    pairs = flatten(metadata)
    if node.operator == Operator.EXISTS:
        return any(key == node.value or key.startswith(f"{node.value}.") for key in pairs)
    wanted = flatten(json.loads(str(node.value)))
    return all(text in pairs.get(key, []) for key, texts in wanted.items() for text in texts)


def _thread(node: Comparison, metadata: Any) -> bool:
    pairs = flatten(metadata)
    wanted = node.value if isinstance(node.value, tuple) else (node.value,)
    found = any(value in pairs.get(key, []) for value in wanted for key in THREAD_KEYS)
    return found != (node.operator == Operator.NEQ)


def _texts(field: str | None, row: Row) -> list[str]:
    if field is None:
        names = ("name", "error", "tags", "inputs", "outputs", "metadata")
        return [text for name in names for text in _texts(name, row)]
    value = row[field]
    if value is None:
        return []
    if field == "tags":
        return [" ".join(value)]
    if field == "metadata":
        return [json.dumps(flatten(value), ensure_ascii=False)]
    return [value if field not in _DOCUMENTS else json.dumps(value, ensure_ascii=False)]


_DOCUMENTS = ("inputs", "outputs")


def _contains(text: str, word: str) -> bool:
    """In JSON text a word looks as JSON writes it."""
    in_json = json.dumps(word, ensure_ascii=False)[1:-1]
    return (in_json if text[:1] in "{[" else word).lower() in text.lower()


def _like(value: str, pattern: str) -> bool:
    expression = ""
    literal = False
    for character in pattern:
        if literal or character not in "%_\\":
            expression += re.escape(character)
            literal = False
        elif character == "\\":
            literal = True
        else:
            expression += ".*" if character == "%" else "."
    return re.fullmatch(expression, value, re.DOTALL) is not None


def _seconds(start: datetime, end: datetime | None) -> Decimal | None:
    return None if end is None else Decimal(int((end - start).total_seconds() * 1_000_000 + 0.5)) / 1_000_000


def _source(item: Filter) -> str | None:
    if not isinstance(item, Comparison | Search) or item.field is None:
        return None
    field = FIELDS[item.field]
    if field.kind in (Kind.PAIR_KEY, Kind.PAIR_VALUE):
        return field.column
    return "feedback" if field.kind in (Kind.FEEDBACK_KEY, Kind.FEEDBACK_SCORE, Kind.FEEDBACK_TEXT) else None


def _is_key(member: Comparison | Search) -> bool:
    return FIELDS[member.field or ""].kind in (Kind.PAIR_KEY, Kind.FEEDBACK_KEY)


def _negative(member: Comparison | Search) -> bool:
    return isinstance(member, Comparison) and member.operator == Operator.NEQ
