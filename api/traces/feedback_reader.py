"""What clients send about feedback, checked (trace contract §5.7)."""

from typing import Any
from uuid import UUID

from api.errors import InvalidError
from api.traces.documents import dump_json_text
from api.traces.run_reader import read_time, read_uuid
from storage.filters.pairs import clean
from storage.ids import new_id
from storage.traces.changes import FeedbackChange

MAX_KEY = 180
_MAX_COMMENT = 100_000
_OBJECTS = ("feedback_source", "extra")
_UUIDS = ("comparative_experiment_id", "feedback_group_id")


def read_feedback(body: Any, feedback_id: UUID | None = None) -> FeedbackChange:
    """A feedback record from its JSON object; a missing id is made.

    Raises:
        InvalidError: a field has the wrong type.
    """
    if not isinstance(body, dict):
        raise InvalidError("Feedback: expected a JSON object.")
    given_id = read_uuid(body["id"], "id") if body.get("id") is not None else None
    if feedback_id and given_id and given_id != feedback_id:
        raise InvalidError(f"Feedback {feedback_id}: its body has another id.")
    key = body.get("key")
    if not isinstance(key, str) or not 0 < len(clean(key)) <= MAX_KEY:
        raise InvalidError(f"key: expected a string of 1 to {MAX_KEY} characters.")
    ids = {
        name: read_uuid(body[name], name)
        for name in ("run_id", "trace_id", "session_id", *_UUIDS)
        if body.get(name) is not None
    }
    values = read_opinion(body)
    values |= {name: ids[name] for name in _UUIDS if name in ids}
    values["is_error"] = bool(body.get("error"))
    if body.get("start_time") is not None:
        values["start_time"] = read_time(body["start_time"], "start_time")
    for name in _OBJECTS:
        if body.get(name) is not None:
            if not isinstance(body[name], dict):
                raise InvalidError(f"{name}: expected an object.")
            dump_json_text(body[name], name)
            values[name] = body[name]
    created_at = read_time(body["created_at"], "created_at") if body.get("created_at") is not None else None
    return FeedbackChange(
        feedback_id or given_id or new_id(),
        clean(key),
        values,
        run_id=ids.get("run_id"),
        trace_id=ids.get("trace_id"),
        session_id=ids.get("session_id"),
        created_at=created_at,
    )


def read_opinion(body: dict[str, Any]) -> dict[str, Any]:
    """`score`, `value`, `comment` and `correction`, as far as they are given and not null.

    Raises:
        InvalidError: a field has the wrong type.
    """
    values: dict[str, Any] = {}
    score = body.get("score")
    if score is not None:
        if not isinstance(score, int | float) or abs(score) > 1e15:
            raise InvalidError("score: expected a number or a boolean.")
        values["score"] = round(float(score), 4)
    if body.get("value") is not None:
        dump_json_text(body["value"], "value")
        values["value"] = clean(body["value"]) if isinstance(body["value"], str) else body["value"]
    comment = body.get("comment")
    if comment is not None:
        if not isinstance(comment, str) or len(comment) > _MAX_COMMENT:
            raise InvalidError(f"comment: expected a string of at most {_MAX_COMMENT} characters.")
        values["comment"] = clean(comment)
    if body.get("correction") is not None:
        if not isinstance(body["correction"], dict | str):
            raise InvalidError("correction: expected an object.")
        dump_json_text(body["correction"], "correction")
        values["correction"] = body["correction"]
    return values
