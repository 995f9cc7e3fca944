"""Pieces of SQL that filters are compiled to. Every condition is true or false, never NULL, so that `not` is exact."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from storage.filters.tree import Comparison, Operator, Search

_ORDER = {Operator.GT: ">", Operator.GTE: ">=", Operator.LT: "<", Operator.LTE: "<="}
_ARRAY_TYPES: dict[type, str] = {UUID: "uuid[]", Decimal: "numeric[]", datetime: "timestamptz[]"}


class Parameters:
    """Values of a condition, bound under names that begin with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.values: dict[str, Any] = {}

    def add(self, value: Any) -> str:
        """The placeholder of a value."""
        name = f"{self._prefix}{len(self.values)}"
        self.values[name] = value
        return f"%({name})s"


def compare(expression: str, comparison: Comparison, parameters: Parameters, *, nullable: bool) -> str:
    """A scalar expression compared with a typed value; what is absent equals nothing and differs from everything."""
    value = comparison.value
    operator = comparison.operator
    if value is None:
        return f"{expression} IS {'NOT ' if operator == Operator.NEQ else ''}NULL"
    if operator == Operator.NEQ:
        different = "IS DISTINCT FROM" if nullable else "<>"
        return f"{expression} {different} {parameters.add(value)}"
    if operator in (Operator.EQ, Operator.HAS):
        condition = f"{expression} = {parameters.add(value)}"
    elif operator == Operator.IN:
        assert isinstance(value, tuple)
        array_type = _ARRAY_TYPES.get(type(value[0]), "text[]") if value else "text[]"
        if not value:
            return "false"
        condition = f"{expression} = ANY({parameters.add(list(value))}::{array_type})"
    elif operator == Operator.LIKE:
        condition = f"{expression} LIKE {parameters.add(value)}"
    else:
        condition = f"{expression} {_ORDER[operator]} {parameters.add(value)}"
    return f"({expression} IS NOT NULL AND {condition})" if nullable else condition


def contains_words(
    expressions: list[str], search: Search, parameters: Parameters, *, documents: int = 0
) -> str:
    """Every word occurs in one of the expressions; the last `documents` of them are JSON text."""
    conditions = []
    for word in search.words:
        plain = parameters.add(f"%{escape_pattern(word)}%")
        escaped = json_escaped(word)
        in_json = plain if escaped == word else parameters.add(f"%{escape_pattern(escaped)}%")
        plain_count = len(expressions) - documents
        places = [f"{place} ILIKE {plain}" for place in expressions[:plain_count]]
        places += [f"{place} ILIKE {in_json}" for place in expressions[plain_count:]]
        conditions.append(f"coalesce({' OR '.join(places)}, false)")
    return f"({' AND '.join(conditions)})"


def escape_pattern(text: str) -> str:
    """Text that LIKE takes literally."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def json_escaped(text: str) -> str:
    """Text as it looks inside a JSON string."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
