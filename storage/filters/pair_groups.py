"""Comparisons of keys and values that speak of the same pair (trace contract §4.3).

Inside one `and`, a comparison of a key and the comparisons of values that follow it form a group: they hold for one and
the same pair of the document, or one and the same feedback record. The next comparison of a key begins a new group.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from storage.filters.fields import FIELDS, Kind
from storage.filters.tree import Comparison, Filter, Operator, Search

_KEYS = {Kind.PAIR_KEY, Kind.FEEDBACK_KEY}
_VALUES = {Kind.PAIR_VALUE, Kind.FEEDBACK_SCORE, Kind.FEEDBACK_TEXT}
FEEDBACK = "feedback"

Member = Comparison | Search


@dataclass
class PairGroup:
    """`source` is the document's column, or `FEEDBACK`."""

    source: str
    key: Member | None = None
    values: list[Member] = field(default_factory=list)


def group_pairs(items: Iterable[Filter]) -> tuple[list[PairGroup], list[Filter]]:
    """Groups in order of their first member, and the items that speak of no pair."""
    groups: list[PairGroup] = []
    rest: list[Filter] = []
    open_groups: dict[str, PairGroup] = {}
    for item in items:
        source = source_of(item)
        if source is None or not isinstance(item, Comparison | Search):
            rest.append(item)
            continue
        group = open_groups.get(source)
        is_key = FIELDS[item.field or ""].kind in _KEYS
        if group is None or (is_key and group.key is not None):
            group = open_groups[source] = PairGroup(source)
            groups.append(group)
        if is_key:
            group.key = item
        else:
            group.values.append(item)
    return groups, rest


def source_of(item: Filter) -> str | None:
    """What the pairs are made of that a comparison speaks of; None if it speaks of none."""
    if not isinstance(item, Comparison | Search) or item.field is None:
        return None
    known = FIELDS[item.field]
    if known.kind in (Kind.PAIR_KEY, Kind.PAIR_VALUE):
        return known.column
    return FEEDBACK if known.kind in _KEYS | _VALUES else None


def pair_condition(group: PairGroup, exists: Callable[[list[Member]], str]) -> str:
    """SQL of a group; `exists(members)` is SQL for: one pair satisfies all of the members, taken as positive.

    A negative key says that no pair has it, a negative value that no pair (of the key, if there is one) has it.
    """
    positive = [member for member in group.values if not _is_negative(member)]
    negative = [_affirmed(member) for member in group.values if _is_negative(member)]
    key = group.key
    conditions = []
    if key is not None and _is_negative(key):
        conditions.append(f"NOT {exists([_affirmed(key)])}")
        key = None
    shared: list[Member] = [key] if key is not None else []
    if shared or positive:
        conditions.append(exists([*shared, *positive]))
    conditions.extend(f"NOT {exists([*shared, member])}" for member in negative)
    return f"({' AND '.join(conditions)})"


def _is_negative(member: Member) -> bool:
    return isinstance(member, Comparison) and member.operator == Operator.NEQ


def _affirmed(member: Member) -> Member:
    assert isinstance(member, Comparison)
    return Comparison(Operator.EQ, member.field, member.value, member.position)
