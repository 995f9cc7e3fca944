"""Runs with exactly the fields that `selects` names (trace contract §5.5, enum RunSelectField)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

import orjson
from psycopg.rows import DictRow

from api.errors import InvalidError
from api.services import Services
from api.traces.attachments import attachment_urls
from storage.database import Connection
from storage.examples import datasets_of_examples
from storage.public_links import tokens_of_runs

_PREVIEW_CHARACTERS = 300
_DOCUMENTS = {
    "INPUTS": "inputs",
    "INPUTS_PREVIEW": "inputs",
    "OUTPUTS": "outputs",
    "OUTPUTS_PREVIEW": "outputs",
    "EXTRA": "extra",
    "METADATA": "extra",
    "EVENTS": "events",
    "MANIFEST": "serialized",
}
_COUNTS = ("total_tokens", "prompt_tokens", "completion_tokens")
_COSTS = ("total_cost", "prompt_cost", "completion_cost")
_DETAILS = (
    "prompt_token_details",
    "completion_token_details",
    "prompt_cost_details",
    "completion_cost_details",
)

Field = Callable[[DictRow], Any]


def _plain(name: str) -> Field:
    return lambda row: row[name]


def _document(name: str) -> Field:
    return lambda row: None if row[name] is None else orjson.Fragment(row[name])


def _preview(name: str) -> Field:
    return lambda row: None if row[name] is None else row[name][:_PREVIEW_CHARACTERS]


def _details(name: str) -> Field:
    return lambda row: {"raw": own_usage(row)[name]} if name in own_usage(row) else None


def _latency(row: DictRow) -> float | None:
    return None if row["end_time"] is None else (row["end_time"] - row["start_time"]).total_seconds()


def _metadata(row: DictRow) -> Any:
    extra = orjson.loads(row["extra"]) if row["extra"] else None
    return extra.get("metadata") if isinstance(extra, dict) else None


def own_usage(row: DictRow) -> dict[str, Any]:
    """Tokens, costs and their details of the run alone."""
    return (row["own_usage"] or {}).get("counted") or {}


_FIELDS: dict[str, Field] = {
    **{
        name.upper(): _plain(name)
        for name in (
            *(
                "id",
                "name",
                "start_time",
                "end_time",
                "first_token_time",
                "error",
                "parent_run_ids",
                "trace_id",
            ),
            *("thread_id", "dotted_order", "is_root", "reference_example_id", "tags"),
        )
    },
    **{name.upper(): _document(name) for name in ("inputs", "outputs", "extra", "events")},
    **{name.upper(): _details(name) for name in _DETAILS},
    "RUN_TYPE": lambda row: row["run_type"].upper(),
    "STATUS": lambda row: row["status"].upper(),
    "LATENCY_SECONDS": _latency,
    "ERROR_PREVIEW": _preview("error"),
    "METADATA": _metadata,
    "INPUTS_PREVIEW": _preview("inputs"),
    "OUTPUTS_PREVIEW": _preview("outputs"),
    "MANIFEST": _document("serialized"),
    "PROJECT_ID": _plain("session_id"),
    "APP_PATH": lambda row: f"/projects/p/{row['session_id']}/r/{row['id']}",
    "IS_IN_DATASET": lambda row: row["reference_example_id"] is not None,
    "FEEDBACK_STATS": _document("feedback_stats"),
}
# Ours has none of these.
_ABSENT = ("PRICE_MODEL_ID", "THREAD_EVALUATION_TIME", "LAST_QUEUED_AT", "LS_USER_ID")
_LOOKED_UP = ("ATTACHMENTS", "SHARE_URL", "REFERENCE_DATASET_ID")
SELECTABLE = frozenset((*_FIELDS, *_ABSENT, *_LOOKED_UP, *(name.upper() for name in (*_COUNTS, *_COSTS))))


def read_selects(selects: Iterable[str] | None) -> list[str]:
    """Names of fields, each once; the id alone where none are given.

    Raises:
        InvalidError: one is unknown.
    """
    asked = list(dict.fromkeys(selects or ())) or ["ID"]
    unknown = [name for name in asked if name not in SELECTABLE]
    if unknown:
        raise InvalidError(f"selects: {unknown[0][:80]!r} is none of {', '.join(sorted(SELECTABLE))}.")
    return asked


def documents_of(selects: Iterable[str]) -> tuple[str, ...]:
    """The stored documents that fields are made of."""
    return tuple({_DOCUMENTS[name] for name in selects if name in _DOCUMENTS})


async def shape_runs(
    services: Services,
    connection: Connection,
    tenant_id: UUID,
    rows: Sequence[DictRow],
    selects: Sequence[str],
    *,
    of_subtree: bool = False,
) -> list[dict[str, Any]]:
    """The fields of each row. Tokens and costs are those of the run alone, or with `of_subtree` of all below it too."""
    datasets = shared = {}
    if "REFERENCE_DATASET_ID" in selects:
        examples = [row["reference_example_id"] for row in rows if row["reference_example_id"]]
        datasets = await datasets_of_examples(connection, tenant_id, examples)
    if "SHARE_URL" in selects:
        shared = await tokens_of_runs(connection, tenant_id, [row["trace_id"] for row in rows])

    def value(row: DictRow, name: str) -> Any:
        field = name.lower()
        if field in _COUNTS:
            return row[field] if of_subtree else int(own_usage(row).get(field, 0))
        if field in _COSTS:
            cost = row[field] if of_subtree else own_usage(row).get(field)
            return None if cost is None else float(cost)
        match name:
            case "ATTACHMENTS":
                files = attachment_urls(services, row["attachments"]) or {}
                return {path.partition(".")[2]: file["presigned_url"] for path, file in files.items()}
            case "REFERENCE_DATASET_ID":
                return datasets.get(row["reference_example_id"])
            case "SHARE_URL":
                token = shared.get(row["trace_id"])
                return f"{services.settings.api_url}/public/{token}/r" if token else None
        return None if name in _ABSENT else _FIELDS[name](row)

    return [{name.lower(): value(row, name) for name in selects} for row in rows]
