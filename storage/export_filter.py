"""The filter of an export, compiled for the trace store."""

from storage.export_rows import Condition
from storage.filters.compile import compile_filter
from storage.filters.errors import FilterError

__all__ = ["FilterError", "compile_condition"]


def compile_condition(text: str | None) -> Condition | None:
    """The condition that `text` stands for; None without a filter.

    Raises:
        FilterError: it is not an expression of the filter language.
    """
    if text is None or not text.strip():
        return None
    compiled = compile_filter(text)
    return Condition(compiled.sql, compiled.params)
