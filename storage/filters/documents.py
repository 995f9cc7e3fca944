"""Keys and values of inputs and outputs in SQL: what an index finds, and a cheap test before a document is parsed."""

from storage.filters.fields import FIELDS, Kind
from storage.filters.pairs import MAX_KEY_LENGTH, MAX_VALUE_LENGTH
from storage.filters.sql import Parameters, escape_pattern
from storage.filters.tree import Comparison, Operator, Search

# What the indexes `trace_runs_inputs` and `trace_runs_outputs` hold of a document too large to be taken apart.
_LARGE = "'[\"large\"]'::jsonb"


def has_pair(column: str, pair: str, members: list[Comparison | Search], parameters: Parameters) -> str:
    """Whether a document has the pair that the placeholder `pair` names; root runs are found by their index."""
    indexed = f"slipway_indexed_pairs({column})"
    return (
        f"({column} IS NOT NULL AND {may_hold(column, members, parameters)} AND ({indexed} @> {pair}::jsonb"
        f" OR {indexed} @> {_LARGE} AND slipway_pairs({column}) @> {pair}::jsonb))"
    )


def may_hold(column: str, members: list[Comparison | Search], parameters: Parameters) -> str:
    """False only for documents, not NULL, that cannot hold a pair that satisfies all the members.

    Whatever a member equals stands in the JSON text as it is, unless the text escapes it.
    """
    parts = dict.fromkeys(part for member in members for part in _literal_parts(member))
    if not parts:
        return "true"
    conditions = [f"{column} LIKE {parameters.add(f'%{escape_pattern(part)}%')}" for part in parts]
    escapes = [r"\u", *([r"\/"] if any("/" in part for part in parts) else [])]
    escaped = "".join(f" OR position({parameters.add(escape)} in {column}) > 0" for escape in escapes)
    return f"({' AND '.join(conditions)}{escaped})"


def _literal_parts(member: Comparison | Search) -> list[str]:
    """Texts that every document with such a key or value holds, written so or with one of the escapes \\u and \\/."""
    if not isinstance(member, Comparison) or member.operator not in (Operator.EQ, Operator.HAS):
        return []
    text = str(member.value)
    if FIELDS[member.field].kind == Kind.PAIR_KEY:
        # A dot is written nowhere where it stands between the keys of an object and of one in it.
        parts = text[:MAX_KEY_LENGTH].split(".")
    else:
        parts = [] if _is_number(text) else [text[:MAX_VALUE_LENGTH]]
    return [part for part in parts if part and part.isprintable() and '"' not in part and "\\" not in part]


def _is_number(text: str) -> bool:
    """Numbers can be written in several ways."""
    try:
        float(text)
    except ValueError:
        return False
    return True
