"""Filters of examples: the same language, speaking of metadata only (trace contract §4.1)."""

from typing import Any

from api.errors import BadRequestError
from storage.filters.compile import compile_tree
from storage.filters.errors import FilterError
from storage.filters.parse import parse_filter
from storage.filters.tree import And, Comparison, Filter, Not, Or, Search

_FIELDS = {"metadata", "metadata_key", "metadata_value", "id", "name", "source_run_id"}


def compile_example_filter(text: str | None) -> tuple[str, dict[str, Any]] | None:
    """SQL over examples `e`; None without a filter.

    Raises:
        BadRequestError: it is malformed, or names a field that examples do not have.
    """
    if text is None or not text.strip():
        return None
    try:
        tree = parse_filter(text)
        _check(tree)
        compiled = compile_tree(tree, alias="e", prefix="filter_")
    except FilterError as error:
        raise BadRequestError(f"filter: {error}") from None
    return compiled.sql, compiled.params


def _check(node: Filter) -> None:
    match node:
        case And(items) | Or(items):
            for item in items:
                _check(item)
        case Not(item):
            _check(item)
        case Comparison() | Search():
            if node.field not in _FIELDS:
                raise FilterError(f"examples have no field {node.field!r}", node.position)
