"""Runs as clients read them: RunSchema of trace contract §5.5."""

from decimal import Decimal
from typing import Any

import orjson
from psycopg.rows import DictRow

from api.services import Services
from api.traces.attachments import attachment_urls
from storage.traces.columns import LARGE
from storage.traces.usage import DETAILS

_COSTS = ("total_cost", "prompt_cost", "completion_cost")
_HIDDEN = {"own_usage", "attachments", "received_at", "found", "before_bytes", *LARGE}


def shape_run(
    services: Services, row: DictRow, children: dict[Any, list[Any]] | None = None
) -> dict[str, Any]:
    """A row of `storage.traces.runs` as RunSchema. Documents are passed on as the client sent them."""
    run = {name: value for name, value in row.items() if name not in _HIDDEN}
    for name in LARGE:
        if name in row:
            text = row[name]
            run[name] = None if text is None else orjson.Fragment(text)
    stats = row["feedback_stats"]
    run["feedback_stats"] = None if stats is None else orjson.Fragment(stats)
    for name in _COSTS:
        run[name] = decimal_text(row[name])
    counted = (row["own_usage"] or {}).get("counted") or {}
    for name in DETAILS.values():
        run[name] = counted.get(name)
    run["s3_urls"] = attachment_urls(services, row["attachments"])
    run["child_run_ids"] = children.get(row["id"], []) if children is not None else None
    run["app_path"] = f"/projects/p/{row['session_id']}/r/{row['id']}"
    run["inserted_at"] = row["received_at"]
    run["execution_order"] = 1
    run["in_dataset"] = row["reference_example_id"] is not None
    return run


def shape_stats(row: dict[str, Any]) -> dict[str, Any]:
    """Statistics of `storage.traces.stats` as RunStats: costs are decimal strings."""
    return {**row, **{name: decimal_text(row[name]) for name in _COSTS}}


def decimal_text(value: Decimal | None) -> str | None:
    """A cost as clients read it: a decimal string without an exponent."""
    return None if value is None else format(value, "f")
