"""What clients send about a run, as a checked `RunChange` (trace contract §5.4).

Written by hand and not as a pydantic model: this runs for every run that is ingested.
"""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from api.errors import InvalidError
from api.traces.documents import dump_json_text, read_json
from api.traces.dotted_order import read_dotted_order
from storage.filters.pairs import clean, flatten
from storage.traces.changes import RunChange, RunType
from storage.traces.usage import read_usage, usage_of_outputs

DOCUMENTS = ("inputs", "outputs", "extra", "events", "error", "serialized")
_RUN_TYPES = frozenset(RunType)
_UUIDS = ("session_id", "trace_id", "parent_run_id", "reference_example_id")
_TIMES = ("start_time", "end_time")
_MAX_NAME = 4_096
_MAX_TAGS = 1_000
_MAX_TAG = 1_024
_FIRST_TIME = datetime(1, 1, 2, tzinfo=UTC)
_MAX_MILLISECONDS = 253_402_300_799_000


def read_run(
    run_id: UUID, is_create: bool, main: Any, documents: dict[str, bytes | memoryview] | None = None
) -> RunChange:
    """A run's JSON object `main`, with documents that came beside it (multipart) or inside it.

    Raises:
        InvalidError: a field has the wrong type, or contradicts another.
    """
    if not isinstance(main, dict):
        raise InvalidError(f"Run {run_id}: expected a JSON object.")
    if main.get("id") is not None and read_uuid(main["id"], "id") != run_id:
        raise InvalidError(f"Run {run_id}: its body has another id.")
    values: dict[str, Any] = {}
    for name in _UUIDS:
        given = main.get(name)
        if given is not None:
            values[name] = read_uuid(given, name)
    for name in _TIMES:
        given = main.get(name)
        if given is not None:
            values[name] = read_time(given, name)
    _read_scalars(main, values)
    for name in DOCUMENTS:
        if documents and name in documents:
            value, text = read_json(documents[name], f"Part {name} of run {run_id}")
        elif main.get(name) is not None:
            value = main[name]
            text = dump_json_text(value, name) if name != "error" else ""
        else:
            continue
        _READERS[name](value, text, values)
    provisional = _read_order(run_id, main.get("dotted_order"), values)
    session_name = main.get("session_name")
    if session_name is not None and not isinstance(session_name, str):
        raise InvalidError("session_name: expected a string.")
    return RunChange(run_id, is_create, values, session_name or None, provisional)


def read_uuid(given: Any, what: str) -> UUID:
    """A UUID from its text.

    Raises:
        InvalidError: it is none.
    """
    try:
        return UUID(given)
    except (ValueError, TypeError, AttributeError):
        raise InvalidError(f"{what}: {shown(given)} is not a UUID.") from None


def read_time(given: Any, what: str) -> datetime:
    """A moment from ISO 8601 text (UTC if it names no zone) or milliseconds since 1970.

    Raises:
        InvalidError: it is neither.
    """
    try:
        if isinstance(given, str):
            moment = datetime.fromisoformat(given)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            if moment >= _FIRST_TIME:
                return moment.astimezone(UTC)
        elif (
            isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= _MAX_MILLISECONDS
        ):
            return datetime.fromtimestamp(given / 1000, UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidError(f"{what}: {shown(given)} is not a time: send ISO 8601 or epoch milliseconds.")


def shown(value: Any) -> str:
    """A refused value as an error shows it: short, and never a whole document."""
    if value is None or isinstance(value, str | int | float):
        return repr(value)[:80]
    return f"of type {type(value).__name__}"


def _read_scalars(main: dict[str, Any], values: dict[str, Any]) -> None:
    name = main.get("name")
    if name is not None:
        if not isinstance(name, str):
            raise InvalidError("name: expected a string.")
        values["name"] = clean(name)[:_MAX_NAME]
    run_type = main.get("run_type")
    if run_type is not None:
        if not isinstance(run_type, str) or run_type not in _RUN_TYPES:
            raise InvalidError(
                f"run_type: {shown(run_type)} is unknown; one of {', '.join(sorted(_RUN_TYPES))}."
            )
        values["run_type"] = run_type
    tags = main.get("tags")
    if tags is not None:
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidError("tags: expected an array of strings.")
        if len(tags) > _MAX_TAGS:
            raise InvalidError(f"tags: at most {_MAX_TAGS}.")
        values["tags"] = [clean(tag)[:_MAX_TAG] for tag in tags]


def _read_order(run_id: UUID, given: Any, values: dict[str, Any]) -> frozenset[str]:
    """Checks `dotted_order` against the ids, and fills what it tells; returns what is filled as a guess."""
    if given is None:
        return frozenset()
    order = read_dotted_order(given, run_id)
    if values.setdefault("trace_id", order.trace_id) != order.trace_id:
        raise InvalidError(f"trace_id {values['trace_id']} is not the first id of dotted_order.")
    if order.parent_run_ids:
        parent = order.parent_run_ids[-1]
        if values.setdefault("parent_run_id", parent) != parent:
            raise InvalidError(
                f"parent_run_id {values['parent_run_id']} is not the last but one of dotted_order."
            )
    elif "parent_run_id" in values:
        raise InvalidError("parent_run_id is given, but dotted_order is that of a root run.")
    values["dotted_order"] = given
    values["parent_run_ids"] = order.parent_run_ids
    if "start_time" in values:
        return frozenset()
    values["start_time"] = order.start_time
    return frozenset({"start_time"})


def _read_document(name: str) -> Any:
    def read(_: Any, text: str, values: dict[str, Any]) -> None:
        values[name] = text

    return read


def _read_outputs(value: Any, text: str, values: dict[str, Any]) -> None:
    values["outputs"] = text
    values["outputs_usage"] = usage_of_outputs(value)


def _read_extra(value: Any, text: str, values: dict[str, Any]) -> None:
    values["extra"] = text
    metadata = value.get("metadata") if isinstance(value, dict) else None
    values["metadata_pairs"] = flatten(metadata)
    if isinstance(metadata, dict):
        values["extra_usage"] = read_usage(metadata.get("usage_metadata"))
        model = metadata.get("ls_model_name")
        values["model"] = clean(model)[:200] if isinstance(model, str) else None


def _read_events(value: Any, text: str, values: dict[str, Any]) -> None:
    if not isinstance(value, list):
        raise InvalidError("events: expected an array.")
    values["events"] = text
    for event in value:
        if isinstance(event, dict) and event.get("name") == "new_token" and event.get("time") is not None:
            values["first_token_time"] = read_time(event["time"], "events.time")
            return


def _read_error(value: Any, _: str, values: dict[str, Any]) -> None:
    if value:
        values["error"] = clean(value if isinstance(value, str) else dump_json_text(value, "error"))


_READERS = {
    "inputs": _read_document("inputs"),
    "outputs": _read_outputs,
    "extra": _read_extra,
    "events": _read_events,
    "error": _read_error,
    "serialized": _read_document("serialized"),
}
