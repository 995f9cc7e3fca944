"""The filter language: what it accepts, and what it says about what it does not."""

from decimal import Decimal

import pytest

from storage.filters.compile import compile_filter
from storage.filters.errors import FilterError
from storage.filters.parse import MAX_DEPTH, MAX_LENGTH, parse_filter
from storage.filters.tree import And, Comparison, Operator, Search

ACCEPTED = [
    'eq(run_type, "retriever")',
    'neq(status, "success")',
    'and(eq(is_root, true), gte(start_time, "2026-10-01T00:00:00Z"), lt(start_time, "2026-10-02T00:00:00Z"))',
    'gt(latency, "12.5s")',
    'and(lte(latency, 0.25), in(name, ["rerank", "embed_query"]))',
    'has(tags, "canary")',
    'and(or(has(tags, "eu"), has(tags, "us")), neq(run_type, "tool"))',
    'and(eq(metadata_key, "customer"), eq(metadata_value, "acme"))',
    'neq(metadata_key, "debug")',
    'and(eq(feedback_key, "helpful"), lt(feedback_score, 0.3))',
    'search("quota exceeded")',
    'and(eq(output_key, "tool_calls.name"), eq(output_value, "lookup_order"))',
    'and(eq(input_key, "question"), like(input_value, "%refund%"))',
    "neq(error, null)",
    "or(gt(total_tokens, 20000), and(eq(run_type, 'llm'), has(metadata, '{\"ls_model_name\": \"m-1\"}')))",
    "and(neq(metadata_key,'x'))",
    'has("metadata", \'{"a": 1}\')',
    'and(in(metadata_key, ["session_id","thread_id"]), eq(metadata_value, "t"))',
    'not(exists(metadata, "tenant_id"))',
    'eq(thread_id, "t-1")',
    'has(feedback_key, "x")',
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_the_contracts_examples_are_understood(text: str) -> None:
    assert compile_filter(text).sql


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ('eq(name "x")', 8, "expected ','; found '\"x\"'"),
        ("and(eq(is_root, true), )", 23, "a comparison"),
        ('foo(name, "x")', 0, "found 'foo'"),
        ("eq(error, null", 14, "found the end"),
        ("", 0, "found the end"),
        ('eq(nme, "x")', 3, "unknown field 'nme'"),
        ('gt(name, "x")', 0, "cannot be compared with gt"),
        ('eq(id, "x")', 0, "'x' is not a UUID"),
        ('gt(latency, "1m")', 0, "expected seconds"),
        ('eq(start_time, "yesterday")', 0, "not an ISO 8601 time"),
        ('like(name, "a\\\\")', 0, "lone backslash"),
        ('has(metadata, "[1]")', 0, "expected a JSON object"),
        ('eq(is_root, "true")', 0, "not a boolean"),
        ("eq(name, null)", 0, "null fits only"),
        ('in(name, "x")', 0, "expected a list"),
        ('eq(name, ["x"])', 0, "not a list"),
        ('search("  ")', 0, "expected 1 to"),
        ("eq(name, 5)", 0, "not a string"),
    ],
)
def test_a_broken_filter_says_where_and_what_was_expected(text: str, position: int, words: str) -> None:
    with pytest.raises(FilterError) as raised:
        compile_filter(text)
    assert raised.value.position == position
    assert words in str(raised.value)


def test_depth_and_length_are_bounded() -> None:
    with pytest.raises(FilterError, match="levels deep"):
        parse_filter("not(" * 1_000 + "eq(is_root, true)" + ")" * 1_000)
    assert parse_filter("not(" * (MAX_DEPTH - 1) + "eq(is_root, true)" + ")" * (MAX_DEPTH - 1))
    with pytest.raises(FilterError, match="more than"):
        parse_filter(f'eq(name, "{"x" * MAX_LENGTH}")')


def test_values_get_the_type_of_their_field() -> None:
    tree = parse_filter('and(gt(latency, "1.5s"), search(inputs, "a b a"))')
    assert isinstance(tree, And)
    comparison, search = tree.items
    assert comparison == Comparison(Operator.GT, "latency", Decimal("1.5"), 4)
    assert isinstance(search, Search)
    assert search.words == ("a", "b")


def test_values_never_reach_the_sql() -> None:
    compiled = compile_filter("""eq(name, "x' OR true --")""")
    assert compiled.sql == "trace_runs.name = %(filter_0)s"
    assert compiled.params == {"filter_0": "x' OR true --"}
