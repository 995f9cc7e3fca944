"""Filters as a typed tree: what the parser makes and the compiler reads."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID


class Operator(StrEnum):
    EQ = "eq"
    NEQ = "neq"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    HAS = "has"
    IN = "in"
    LIKE = "like"
    EXISTS = "exists"
    SEARCH = "search"


Scalar = str | Decimal | bool | datetime | UUID | None
Value = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True)
class Comparison:
    """`operator(field, value)`: the value already has the field's type."""

    operator: Operator
    field: str
    value: Value
    position: int


@dataclass(frozen=True)
class Search:
    """All words occur in the field, or, without a field, anywhere in the run; case does not count."""

    field: str | None
    words: tuple[str, ...]
    position: int


@dataclass(frozen=True)
class And:
    """Nested `and`s are merged into one, for comparisons of keys and values pair across them."""

    items: tuple["Filter", ...]


@dataclass(frozen=True)
class Or:
    items: tuple["Filter", ...]


@dataclass(frozen=True)
class Not:
    item: "Filter"


Filter = Comparison | Search | And | Or | Not
