"""Tokens and costs of a run: where clients write them, and sums over a tree (trace contract §5.4).

A usage is a plain dict with any of `COUNTS` (int), `COSTS` (decimal string) and `DETAILS` (dicts), nothing else.
"""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from storage.traces.prices import price

COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
COSTS = ("prompt_cost", "completion_cost", "total_cost")
DETAILS = {
    "input_token_details": "prompt_token_details",
    "output_token_details": "completion_token_details",
    "input_cost_details": "prompt_cost_details",
    "output_cost_details": "completion_cost_details",
}
_MAX_COUNT = 2**53
_MAX_COST_LENGTH = 40
_TOKEN_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("prompt_tokens", ("input_tokens", "prompt_tokens")),
    ("completion_tokens", ("output_tokens", "completion_tokens")),
    ("total_tokens", ("total_tokens",)),
)
_COST_NAMES = (
    ("prompt_cost", "input_cost"),
    ("completion_cost", "output_cost"),
    ("total_cost", "total_cost"),
)

Usage = dict[str, Any]


def usage_of_outputs(outputs: Any) -> Usage | None:
    """Usage inside a model run's outputs: `usage_metadata` at the top, or as LangChain nests it."""
    if not isinstance(outputs, dict):
        return None
    for candidate in _candidates(outputs):
        usage = read_usage(candidate)
        if usage:
            return usage
    return None


def read_usage(given: Any) -> Usage | None:
    """A client's usage object in our names; None if it holds no usable number."""
    if not isinstance(given, dict):
        return None
    usage: Usage = {}
    for ours, theirs in _TOKEN_NAMES:
        for alias in theirs:
            count = given.get(alias)
            if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _MAX_COUNT:
                usage[ours] = count
                break
    for ours, name in _COST_NAMES:
        cost = _decimal(given.get(name))
        if cost is not None:
            usage[ours] = cost
    if not usage:
        return None
    for their_name, our_name in DETAILS.items():
        details = given.get(their_name)
        if isinstance(details, dict):
            numbers = {str(name): count for name, count in details.items() if _is_number(count)}
            if numbers:
                usage[our_name] = numbers
    return usage


def effective_usage(values: dict[str, Any]) -> Usage | None:
    """What a merged run used itself: what its metadata says, else, for model calls, what its outputs say."""
    usage = values.get("extra_usage")
    if usage is None and values.get("run_type") in ("llm", "embedding"):
        usage = values.get("outputs_usage")
    if usage is None:
        return None
    complete = dict(usage)
    if "total_tokens" not in complete and ("prompt_tokens" in complete or "completion_tokens" in complete):
        complete["total_tokens"] = complete.get("prompt_tokens", 0) + complete.get("completion_tokens", 0)
    if not any(cost in complete for cost in COSTS):
        complete.update(price(values.get("model"), complete))
    if "total_cost" not in complete and ("prompt_cost" in complete or "completion_cost" in complete):
        parts = (complete.get("prompt_cost", "0"), complete.get("completion_cost", "0"))
        complete["total_cost"] = str(sum((Decimal(part) for part in parts), Decimal(0)))
    return complete


def add_usage(sums: dict[str, Any], usage: Usage | None, sign: int = 1) -> None:
    """Add a usage to running sums of `COUNTS` (int) and `COSTS` (Decimal)."""
    if not usage:
        return
    for name in COUNTS:
        if name in usage:
            sums[name] = sums.get(name, 0) + sign * usage[name]
    for name in COSTS:
        if name in usage:
            sums[name] = sums.get(name, Decimal(0)) + sign * Decimal(usage[name])


def _candidates(outputs: dict[str, Any]) -> Iterable[Any]:
    yield outputs.get("usage_metadata")
    yield from _langchain_messages(outputs.get("generations"))
    message = outputs.get("message")
    if isinstance(message, dict):
        yield message.get("usage_metadata")
        yield _member(message, "kwargs", "usage_metadata")
    model_output = outputs.get("llm_output")
    if isinstance(model_output, dict):
        yield model_output.get("token_usage")
        yield model_output.get("usage_metadata")
    yield outputs.get("usage")


def _langchain_messages(generations: Any) -> Iterable[Any]:
    """`generations` is a list of lists of {message: {kwargs: {usage_metadata}}}; one call's usages add up."""
    if not isinstance(generations, list):
        return
    sums: dict[str, Any] = {}
    for batch in generations:
        for generation in batch if isinstance(batch, list) else [batch]:
            usage = _member(generation, "message", "kwargs", "usage_metadata") or _member(
                generation, "message", "usage_metadata"
            )
            if not isinstance(usage, dict):
                continue
            for name, count in usage.items():
                if isinstance(count, int | float) and not isinstance(count, bool):
                    sums[name] = sums.get(name, 0) + count
                else:
                    sums.setdefault(name, count)
    yield sums or None


def _member(value: Any, *path: str) -> Any:
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | str)
        and not isinstance(value, bool)
        and len(str(value)) <= _MAX_COST_LENGTH
    )


def _decimal(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value)
    if len(text) > _MAX_COST_LENGTH:
        return None
    try:
        cost = Decimal(text)
    except InvalidOperation:
        return None
    return format(cost, "f") if cost.is_finite() and 0 <= cost < 10**12 and cost.adjusted() > -30 else None
