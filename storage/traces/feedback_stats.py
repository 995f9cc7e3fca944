"""Statistics of feedback, per key, as runs carry them (trace contract §5.5, mission document: feedback_stats).

Value breakdowns exist for string feedback only: numeric, boolean and complex values are excluded from them.
"""

from collections.abc import Iterable
from typing import Any

_MAX_VALUES = 100
_MAX_COMMENTS = 10


def feedback_stats(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """{key: {n, avg, stdev?, values, comments?, errors}} of feedback rows; {} for none."""
    stats: dict[str, Any] = {}
    scores: dict[str, list[float]] = {}
    for record in records:
        entry = stats.setdefault(record["key"], {"n": 0, "avg": None, "values": {}, "errors": 0})
        entry["n"] += 1
        entry["errors"] += bool(record["is_error"])
        value = record["value"]
        if isinstance(value, str) and (value in entry["values"] or len(entry["values"]) < _MAX_VALUES):
            entry["values"][value] = entry["values"].get(value, 0) + 1
        if record["score"] is not None:
            scores.setdefault(record["key"], []).append(record["score"])
        if record["comment"] and len(entry.setdefault("comments", [])) < _MAX_COMMENTS:
            entry["comments"].append(record["comment"])
    for key, numbers in scores.items():
        average = sum(numbers) / len(numbers)
        stats[key]["avg"] = round(average, 6)
        stats[key]["min"], stats[key]["max"] = min(numbers), max(numbers)
        stats[key]["stdev"] = round((sum((n - average) ** 2 for n in numbers) / len(numbers)) ** 0.5, 6)
    return stats
