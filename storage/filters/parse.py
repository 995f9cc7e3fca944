"""Text of a filter to its typed tree (trace contract §4.1)."""

import re
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError

from storage.filters.check import check_comparison, check_search
from storage.filters.errors import FilterError
from storage.filters.tree import And, Filter, Not, Or

MAX_LENGTH = 16_384
MAX_DEPTH = 50

GRAMMAR = r"""
?start: expression
?expression: and_ | or_ | not_ | comparison | search
and_: "and" "(" expression ("," expression)* ")"
or_: "or" "(" expression ("," expression)* ")"
not_: "not" "(" expression ")"
comparison: COMPARATOR "(" field "," value ")"
search: SEARCH "(" (field ",")? string ")"

field: IDENTIFIER | STRING
?value: string | number | TRUE -> true | FALSE -> false | NULL -> null | list
string: STRING
number: NUMBER
list: "[" (value ("," value)*)? "]"

COMPARATOR.2: /(eq|neq|gte|gt|lte|lt|has|in|like|exists)(?=\s*\()/
SEARCH.2: /search(?=\s*\()/
TRUE.2: /(true|True)\b/
FALSE.2: /(false|False)\b/
NULL.2: /(null|None)\b/
IDENTIFIER: /[A-Za-z_][A-Za-z_0-9]*/
STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
NUMBER: /-?\d+(\.\d+)?([eE][+-]?\d{1,2})?/
%ignore /\s+/
"""
_EXPECTATIONS = {
    "AND": "and(",
    "OR": "or(",
    "NOT": "not(",
    "COMPARATOR": "a comparison (eq, neq, gt, gte, lt, lte, has, in, like, exists)",
    "SEARCH": "search(",
    "IDENTIFIER": "a field",
    "STRING": "a string",
    "NUMBER": "a number",
    "TRUE": "true",
    "FALSE": "false",
    "NULL": "null",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "a list",
    "RSQB": "']'",
    "COMMA": "','",
    "$END": "the end",
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}


def parse_filter(text: str) -> Filter:
    """The tree of a filter.

    Raises:
        FilterError: the text is too long or not of the language, or compares what cannot be compared.
    """
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter has more than {MAX_LENGTH} characters", MAX_LENGTH)
    _check_depth(text)
    try:
        tree: Filter = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _explain(text, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise error.orig_exc from None
        raise
    return tree


class _Builder(Transformer[Token, Any]):
    """Called by the parser bottom-up, so that no nesting is too deep for it."""

    def and_(self, items: list[Filter]) -> Filter:
        flat = [inner for item in items for inner in (item.items if isinstance(item, And) else (item,))]
        return And(tuple(flat))

    def or_(self, items: list[Filter]) -> Filter:
        return Or(tuple(items))

    def not_(self, items: list[Filter]) -> Filter:
        return Not(items[0])

    def comparison(self, items: list[Any]) -> Filter:
        operator, (field, position), value = items
        return check_comparison(str(operator), field, position, value, operator.start_pos or 0)

    def search(self, items: list[Any]) -> Filter:
        field = items[1] if len(items) == 3 else (None, 0)
        return check_search(field[0], field[1], items[-1], items[0].start_pos or 0)

    def field(self, items: list[Token]) -> tuple[str, int]:
        token = items[0]
        name = _unquote(token) if token.type == "STRING" else str(token)
        return name, token.start_pos or 0

    def string(self, items: list[Token]) -> str:
        return _unquote(items[0])

    def number(self, items: list[Token]) -> Token:
        return items[0]

    def list(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(items)

    def true(self, _: Any) -> bool:
        return True

    def false(self, _: Any) -> bool:
        return False

    def null(self, _: Any) -> None:
        return None


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", transformer=_Builder(), maybe_placeholders=False)


def _unquote(token: Token) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _ESCAPED.get(escaped, match[0])

    text = _ESCAPE.sub(replace, token[1:-1])
    # Two \u escapes may be one character; a half of a pair is none.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "")


def _check_depth(text: str) -> None:
    """Brackets in strings count too, which only makes the limit a little stricter for odd texts."""
    depth = 0
    for match in re.finditer(r"[(\[)\]]", text):
        depth += 1 if match[0] in "([" else -1
        if depth > MAX_DEPTH:
            raise FilterError(f"nested more than {MAX_DEPTH} levels deep", match.start())


def _explain(text: str, error: UnexpectedInput) -> FilterError:
    position: int = getattr(error, "pos_in_stream", None) or 0
    expected: set[str] = set()
    found = "the end"
    if isinstance(error, UnexpectedToken):
        expected = error.accepts or error.expected
        if error.token.type == "$END":
            position = len(text)
        else:
            found = repr(str(error.token)[:40])
    elif isinstance(error, UnexpectedCharacters):
        expected = error.allowed or set()
        found = repr(text[position : position + 10])
    elif isinstance(error, UnexpectedEOF):
        position = len(text)
    names = sorted(_EXPECTATIONS.get(name, name) for name in expected)
    wanted = f"{'one of: ' if len(names) > 1 else ''}{', '.join(names) or 'something else'}"
    return FilterError(f"expected {wanted}; found {found}", position)
