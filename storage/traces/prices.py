"""List prices of well-known models, for runs whose client sent tokens but no costs.

US dollars per million tokens, (input, output), by the longest prefix of the model's name. Costs that a client sends
always win; an unknown model has no cost.
"""

from decimal import Decimal
from typing import Any

_MILLION = Decimal(1_000_000)
PRICES: dict[str, tuple[Decimal, Decimal]] = {
    name: (Decimal(given), Decimal(made))
    for name, given, made in (
        ("gpt-4o-mini", "0.15", "0.60"),
        ("gpt-4o", "2.50", "10"),
        ("gpt-4.1-nano", "0.10", "0.40"),
        ("gpt-4.1-mini", "0.40", "1.60"),
        ("gpt-4.1", "2", "8"),
        ("gpt-5-nano", "0.05", "0.40"),
        ("gpt-5-mini", "0.25", "2"),
        ("gpt-5", "1.25", "10"),
        ("o3-mini", "1.10", "4.40"),
        ("o4-mini", "1.10", "4.40"),
        ("claude-3-5-haiku", "0.80", "4"),
        ("claude-3-5-sonnet", "3", "15"),
        ("claude-3-7-sonnet", "3", "15"),
        ("claude-sonnet-4", "3", "15"),
        ("claude-haiku-4", "1", "5"),
        ("gemini-2.5-flash", "0.30", "2.50"),
        ("gemini-2.5-pro", "1.25", "10"),
    )
}


def price(model: str | None, usage: dict[str, Any]) -> dict[str, str]:
    """Costs of a usage as decimal strings; {} when the model is unknown or there are no tokens."""
    known = max((name for name in PRICES if model and model.startswith(name)), key=len, default=None)
    if known is None:
        return {}
    given, made = PRICES[known]
    costs = {}
    if "prompt_tokens" in usage:
        costs["prompt_cost"] = format(given * usage["prompt_tokens"] / _MILLION, "f")
    if "completion_tokens" in usage:
        costs["completion_cost"] = format(made * usage["completion_tokens"] / _MILLION, "f")
    return costs
