"""Whether a field may be compared so, and the value in the field's type (trace contract §4.2)."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
from lark import Token

from storage.filters.errors import FilterError
from storage.filters.fields import FIELDS, OPERATORS, Field, Kind
from storage.filters.tree import Comparison, Operator, Scalar, Search, Value

_MAX_LIST = 1_000
_MAX_WORDS = 50
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*s?")
_NUMBERS = {Kind.NUMBER, Kind.FEEDBACK_SCORE}


def check_comparison(
    operator: str, name: str, field_position: int, value: Any, position: int
) -> Comparison | Search:
    """A comparison whose value has the type of its field.

    Raises:
        FilterError: unknown field, an operator that its type does not have, or a value of another type.
    """
    field = _field(name, field_position)
    wanted = Operator(operator)
    if wanted not in OPERATORS[field.kind]:
        allowed = ", ".join(sorted(OPERATORS[field.kind]))
        raise FilterError(f"{name} cannot be compared with {operator}; it has {allowed}", position)
    if wanted == Operator.IN:
        if not isinstance(value, tuple):
            raise FilterError(f"in({name}, …): expected a list", position)
        if len(value) > _MAX_LIST:
            raise FilterError(f"in({name}, …): at most {_MAX_LIST} values", position)
        typed: Value = tuple(_typed(field, item, name, position) for item in value)
    elif isinstance(value, tuple):
        raise FilterError(f"{operator}({name}, …): expected one value, not a list", position)
    elif value is None:
        if not (field.nullable and wanted in (Operator.EQ, Operator.NEQ)):
            raise FilterError(
                f"{operator}({name}, null): null fits only eq and neq of what may be absent", position
            )
        typed = None
    else:
        typed = _typed(field, value, name, position)
    if wanted == Operator.LIKE:
        _check_pattern(str(typed), position)
    return Comparison(wanted, name, typed, position)


def check_search(name: str | None, field_position: int, text: str, position: int) -> Search:
    """A search for words.

    Raises:
        FilterError: the field has no text, or there is no word, or too many.
    """
    if name is not None and Operator.SEARCH not in OPERATORS[_field(name, field_position).kind]:
        raise FilterError(f"{name} cannot be searched", field_position)
    words = tuple(dict.fromkeys(text.split()))
    if not 0 < len(words) <= _MAX_WORDS:
        raise FilterError(f"search: expected 1 to {_MAX_WORDS} words", position)
    return Search(name, words, position)


def _field(name: str, position: int) -> Field:
    field = FIELDS.get(name)
    if field is None:
        raise FilterError(
            f"unknown field {name[:80]!r}; expected one of {', '.join(sorted(FIELDS))}", position
        )
    return field


def _typed(field: Field, value: Any, name: str, position: int) -> Scalar:
    """`value` as the parser read it (str, Token of a number, bool) in the field's type."""
    is_number = isinstance(value, Token)
    is_text = isinstance(value, str) and not is_number
    match field.kind:
        case Kind.UUID if is_text:
            try:
                return UUID(value)
            except ValueError:
                raise FilterError(f"{name}: {value[:80]!r} is not a UUID", position) from None
        case Kind.TIME if is_text:
            return _time(value, name, position)
        case Kind.FIRST_TOKEN if is_text and not _SECONDS.fullmatch(value):
            return _time(value, name, position)
        case Kind.SECONDS | Kind.FIRST_TOKEN if is_text or is_number:
            match_ = _SECONDS.fullmatch(value)
            if match_ is None and not is_number:
                raise FilterError(f'{name}: expected seconds, as a number or like "1.5s"', position)
            return Decimal(match_[1] if match_ else value)
        case kind if kind in _NUMBERS and is_number:
            return Decimal(value)
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.PAIR_VALUE if not is_text and value is not None:
            return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
        case Kind.METADATA if is_text:
            return str(value)
        case kind if kind in _TEXTS and is_text:
            return str(value)
    raise FilterError(f"{name}: {str(value)[:80]!r} is not a {_WORDING[field.kind]}", position)


def _time(value: str, name: str, position: int) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise FilterError(f"{name}: {value[:80]!r} is not an ISO 8601 time", position) from None


def _check_pattern(pattern: str, position: int) -> None:
    backslashes = len(pattern) - len(pattern.rstrip("\\"))
    if backslashes % 2:
        raise FilterError("like: the pattern ends with a lone backslash", position)


def contained_document(text: str, position: int) -> dict[str, Any]:
    """The object of `has(metadata, '<json>')`.

    Raises:
        FilterError: it is not a JSON object.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FilterError(f"has(metadata, …): expected JSON: {error}", position) from None
    if not isinstance(document, dict):
        raise FilterError("has(metadata, …): expected a JSON object", position)
    return document


_TEXTS = {
    Kind.TEXT,
    Kind.TAGS,
    Kind.THREAD,
    Kind.DOCUMENT,
    Kind.PAIR_KEY,
    Kind.PAIR_VALUE,
    Kind.FEEDBACK_KEY,
    Kind.FEEDBACK_TEXT,
}
_WORDING = {
    kind: {
        Kind.UUID: "UUID",
        Kind.TIME: "time",
        Kind.FIRST_TOKEN: "time or number of seconds",
        Kind.SECONDS: "number of seconds",
        Kind.NUMBER: "number",
        Kind.FEEDBACK_SCORE: "number",
        Kind.BOOLEAN: "boolean (true or false)",
    }.get(kind, "string")
    for kind in Kind
}
