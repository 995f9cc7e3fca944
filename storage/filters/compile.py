"""Filters to parametrised SQL over `trace_runs` (trace contract §4)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from storage.filters.check import contained_document
from storage.filters.documents import has_pair, may_hold
from storage.filters.errors import FilterError
from storage.filters.fields import FIELDS, THREAD_KEYS, Field, Kind
from storage.filters.pair_groups import FEEDBACK, Member, PairGroup, group_pairs, pair_condition, source_of
from storage.filters.pairs import MAX_KEY_LENGTH, MAX_VALUE_LENGTH, flatten
from storage.filters.parse import parse_filter
from storage.filters.sql import Parameters, compare, contains_words
from storage.filters.tree import And, Comparison, Filter, Not, Operator, Or, Search

__all__ = ["CompiledFilter", "FilterError", "compile_filter", "compile_tree"]


@dataclass(frozen=True)
class CompiledFilter:
    """A condition with named placeholders, never NULL, and their values."""

    sql: str
    params: dict[str, Any]


def compile_filter(text: str, *, alias: str = "trace_runs", prefix: str = "filter_") -> CompiledFilter:
    """The condition that a filter's text stands for, over the table `trace_runs` called `alias`.

    Names of placeholders begin with `prefix`, so that several conditions fit into one statement.

    Raises:
        FilterError: it is not a filter; says where and what was expected.
    """
    return compile_tree(parse_filter(text), alias=alias, prefix=prefix)


def compile_tree(tree: Filter, *, alias: str, prefix: str) -> CompiledFilter:
    """The same for a filter that was already parsed."""
    compiler = _Compiler(alias, Parameters(prefix))
    return CompiledFilter(compiler.compile(tree), compiler.parameters.values)


class _Compiler:
    def __init__(self, alias: str, parameters: Parameters) -> None:
        self._alias = alias
        self.parameters = parameters

    def compile(self, node: Filter) -> str:
        match node:
            case And(items):
                groups, rest = group_pairs(items)
                conditions = [
                    *(self.compile(item) for item in rest),
                    *(self._group(group) for group in groups),
                ]
                return f"({' AND '.join(conditions)})"
            case Or(items):
                return f"({' OR '.join(self.compile(item) for item in items)})"
            case Not(item):
                return f"(NOT {self.compile(item)})"
            case Search(None):
                return self._search_everywhere(node)
            case Search() | Comparison() if source_of(node):
                return self._group(group_pairs([node])[0][0])
            case Search(field):
                assert field is not None
                return self._search(FIELDS[field], node)
            case Comparison(field=name):
                return self._comparison(FIELDS[name], node)
        raise AssertionError(f"Unknown node {node!r}")

    def _comparison(self, field: Field, node: Comparison) -> str:
        column = self._column(field.column)
        match field.kind:
            case Kind.SECONDS:
                column = f"extract(epoch FROM {self._column('end_time')} - {self._column('start_time')})"
            case Kind.FIRST_TOKEN if node.value is not None and not hasattr(node.value, "tzinfo"):
                column = f"extract(epoch FROM {column} - {self._column('start_time')})"
            case Kind.TAGS:
                return self._tags(column, node)
            case Kind.METADATA:
                return self._metadata(node)
            case Kind.THREAD:
                return self._thread(node)
            case Kind.NUMBER if field.column.isdigit():
                column = field.column
            case Kind.BOOLEAN:
                # Without a placeholder: a partial index is chosen by what the statement says.
                is_true = node.value is (node.operator == Operator.EQ)
                return column if is_true else f"(NOT {column})"
        return compare(column, node, self.parameters, nullable=field.nullable or field.kind == Kind.DOCUMENT)

    def _tags(self, column: str, node: Comparison) -> str:
        if node.operator == Operator.IN:
            assert isinstance(node.value, tuple)
            return f"coalesce({column} && {self.parameters.add(list(node.value))}::text[], false)"
        condition = f"coalesce({self.parameters.add(node.value)} = ANY({column}), false)"
        return f"(NOT {condition})" if node.operator == Operator.NEQ else condition

    def _metadata(self, node: Comparison) -> str:
        """`has`: every pair of the given object is there; `exists`: the key is there, or keys below it."""
        text = str(node.value)
        if node.operator == Operator.EXISTS:
            return self._exists(
                "metadata",
                [
                    f"(p.key = {self.parameters.add(text)} OR starts_with(p.key, {self.parameters.add(text + '.')}))"
                ],
            )
        return self._contains(flatten(contained_document(text, node.position)))

    def _thread(self, node: Comparison) -> str:
        wanted = node.value if isinstance(node.value, tuple) else (node.value,)
        pairs = [
            self._contains({key: [str(value)[:MAX_VALUE_LENGTH]]}) for value in wanted for key in THREAD_KEYS
        ]
        condition = f"({' OR '.join(pairs) or 'false'})"
        return f"(NOT {condition})" if node.operator == Operator.NEQ else condition

    def _search(self, field: Field, node: Search) -> str:
        if field.kind == Kind.METADATA:
            return contains_words(
                [f"{self._column('metadata_pairs')}::text"], node, self.parameters, documents=1
            )
        if field.kind == Kind.TAGS:
            return contains_words([f"array_to_string({self._column('tags')}, ' ')"], node, self.parameters)
        documents = int(field.kind == Kind.DOCUMENT)
        return contains_words([self._column(field.column)], node, self.parameters, documents=documents)

    def _search_everywhere(self, node: Search) -> str:
        plain = [self._column(name) for name in ("name", "error")]
        plain.append(f"array_to_string({self._column('tags')}, ' ')")
        documents = [
            self._column("inputs"),
            self._column("outputs"),
            f"{self._column('metadata_pairs')}::text",
        ]
        return contains_words([*plain, *documents], node, self.parameters, documents=len(documents))

    def _group(self, group: PairGroup) -> str:
        if group.source == FEEDBACK:
            return pair_condition(group, self._feedback)
        return pair_condition(group, partial(self._pair, group.source))

    def _pair(self, source: str, members: list[Member]) -> str:
        """One pair of the document satisfies all members."""
        exact = _exact_pair(members)
        column = self._column(source)
        if exact:
            if source == "metadata":
                return self._contains(exact)
            return has_pair(column, self._json(exact), members, self.parameters)
        found = self._exists(source, [self._member(member) for member in members])
        return (
            found if source == "metadata" else f"({may_hold(column, members, self.parameters)} AND {found})"
        )

    def _member(self, member: Member) -> str:
        assert member.field is not None
        is_key = FIELDS[member.field].kind == Kind.PAIR_KEY
        expression = "p.key" if is_key else "v.value"
        if isinstance(member, Search):
            return contains_words([expression], member, self.parameters)
        if member.operator == Operator.EXISTS:
            member = Comparison(Operator.EQ, member.field, member.value, member.position)
        limit = MAX_KEY_LENGTH if is_key else MAX_VALUE_LENGTH
        return compare(expression, _shortened(member, limit), self.parameters, nullable=False)

    def _exists(self, source: str, conditions: list[str]) -> str:
        document = (
            self._column("metadata_pairs")
            if source == "metadata"
            else f"slipway_pairs({self._column(source)})"
        )
        return (
            f"EXISTS (SELECT FROM jsonb_each({document}) AS p (key, texts),"
            f" jsonb_array_elements_text(p.texts) AS v (value) WHERE {' AND '.join(conditions)})"
        )

    def _contains(self, pairs: dict[str, list[str]]) -> str:
        return f"{self._column('metadata_pairs')} @> {self._json(pairs)}::jsonb"

    def _json(self, pairs: dict[str, list[str]]) -> str:
        return self.parameters.add(orjson.dumps(pairs).decode())

    def _feedback(self, members: list[Member]) -> str:
        conditions = []
        for member in members:
            assert member.field is not None
            field = FIELDS[member.field]
            expression = {
                Kind.FEEDBACK_KEY: "f.key",
                Kind.FEEDBACK_SCORE: "f.score::numeric",
                Kind.FEEDBACK_TEXT: "f.comment" if field.column == "comment" else "(f.value #>> '{}')",
            }[field.kind]
            if isinstance(member, Search):
                conditions.append(contains_words([expression], member, self.parameters))
                continue
            if member.operator == Operator.EXISTS:
                member = Comparison(Operator.EQ, member.field, member.value, member.position)
            conditions.append(compare(expression, member, self.parameters, nullable=expression != "f.key"))
        return (
            f"EXISTS (SELECT FROM feedback f WHERE f.tenant_id = {self._column('tenant_id')}"
            f" AND f.run_id = {self._column('id')} AND {' AND '.join(conditions)})"
        )

    def _column(self, name: str) -> str:
        return f"{self._alias}.{name}"


def _exact_pair(members: list[Member]) -> dict[str, list[str]] | None:
    """The pair that `eq` of a key and `eq` of its values name; None for anything else."""
    if len(members) < 2 or not all(isinstance(m, Comparison) and m.operator == Operator.EQ for m in members):
        return None
    key, *values = members
    assert isinstance(key, Comparison) and key.field is not None
    if FIELDS[key.field].kind != Kind.PAIR_KEY or len(values) != 1 or not isinstance(values[0], Comparison):
        return None
    return {str(key.value)[:MAX_KEY_LENGTH]: [str(values[0].value)[:MAX_VALUE_LENGTH]]}


def _shortened(member: Comparison, limit: int) -> Comparison:
    """Stored keys and values are cut; equality compares what is stored."""
    if member.operator not in (Operator.EQ, Operator.IN, Operator.HAS):
        return member
    value = member.value
    cut = tuple(str(item)[:limit] for item in value) if isinstance(value, tuple) else str(value)[:limit]
    return Comparison(member.operator, member.field, cut, member.position)
