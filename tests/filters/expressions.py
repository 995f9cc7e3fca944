"""Hypothesis strategies: filters as texts, out of the same few words that the rows of a test are made of."""

import json
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

WORDS = ["alpha", "beta", "gamma", 'quo"te', "100%", "a_b", "ünï", "back\\slash"]
KEYS = ["customer", "nested.key", "list", "thread_id", "number"]
VALUES = [*WORDS, "1", "2.5", "true"]
TAGS = ["alpha", "beta", "canary"]
TEN = datetime.now(UTC).replace(hour=10, minute=0, second=0, microsecond=0) - timedelta(days=1)

quoted = st.sampled_from(
    [json.dumps, lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"]
)


def _text(values: list[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda quote, value: quote(value), quoted, st.sampled_from(values))


def _list(values: list[str]) -> st.SearchStrategy[str]:
    return st.lists(_text(values), max_size=3).map(lambda items: f"[{', '.join(items)}]")


def _pattern(values: list[str]) -> st.SearchStrategy[str]:
    def pattern(value: str, before: bool, after: bool, cut: int) -> str:
        body = value[cut:].replace("\\", "\\\\")
        return json.dumps(f"{'%' if before else ''}{body}{'%' if after else ''}")

    return st.builds(pattern, st.sampled_from(values), st.booleans(), st.booleans(), st.integers(0, 2))


def _texts(field: str, values: list[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda op, value: f"{op}({field}, {value})", st.sampled_from(["eq", "neq"]), _text(values)),
        _list(values).map(lambda items: f"in({field}, {items})"),
        _pattern(values).map(lambda pattern: f"like({field}, {pattern})"),
        _text(values).map(lambda value: f"search({field}, {value})"),
    )


def _numbers(field: str, numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["eq", "neq", "gt", "gte", "lt", "lte"])
    return st.builds(lambda op, number: f"{op}({field}, {number})", operators, numbers)


_times = st.integers(0, 5).map(lambda minute: f'"{TEN:%Y-%m-%dT%H}:0{minute}:00Z"')
_metadata_objects = st.sampled_from(
    [{"customer": "alpha"}, {"nested": {"key": "beta"}}, {"list": ["alpha", "beta"]}, {"number": 1}, {}]
)

comparisons = st.one_of(
    _texts("name", WORDS),
    _texts("error", WORDS),
    st.sampled_from(["eq(error, null)", "neq(error, null)", "eq(end_time, null)", "eq(parent_run_id, null)"]),
    st.sampled_from(
        ["eq(is_root, true)", "neq(is_root, true)", 'eq(run_type, "llm")', 'in(status, ["success"])']
    ),
    _numbers("start_time", _times),
    _numbers("end_time", _times),
    _numbers("latency", st.sampled_from(["0.5", '"1.5s"', "2", '"61s"'])),
    _numbers("first_token_time", st.sampled_from(["0.25", f'"{TEN:%Y-%m-%dT%H}:01:00Z"', "10"])),
    _numbers("total_tokens", st.sampled_from(["0", "10", "10.5", "-1"])),
    _numbers("total_cost", st.sampled_from(["0", "0.001", "1"])),
    _text(TAGS).map(lambda tag: f"has(tags, {tag})"),
    _list(TAGS).map(lambda tags: f"in(tags, {tags})"),
    _metadata_objects.map(lambda value: f"has(metadata, {json.dumps(json.dumps(value))})"),
    st.sampled_from([*KEYS, "nested"]).map(lambda key: f'exists(metadata, "{key}")'),
    _text(VALUES).map(lambda value: f"eq(thread_id, {value})"),
    _text(WORDS).map(lambda value: f"search({value})"),
    _text(WORDS).map(lambda value: f"search(inputs, {value})"),
)
_pair_parts = st.one_of(
    *(_texts(f"{document}_key", KEYS) for document in ("metadata", "input", "output")),
    *(_texts(f"{document}_value", VALUES) for document in ("metadata", "input", "output")),
    _texts("feedback_key", ["helpful", "correct"]),
    _numbers("feedback_score", st.sampled_from(["0", "0.5", "1"])),
    _texts("feedback_value", WORDS),
)
_leaves = st.one_of(comparisons, _pair_parts)

expressions = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(lambda items: f"and({', '.join(items)})"),
        st.lists(_pair_parts, min_size=2, max_size=4).map(lambda items: f"and({', '.join(items)})"),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: f"or({' , '.join(items)})"),
        inner.map(lambda item: f"not({item})"),
    ),
    max_leaves=8,
)
