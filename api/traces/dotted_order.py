"""Dotted orders: the path of a run from its root, as times and ids (trace contract §5.4)."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from api.errors import InvalidError

_SEGMENT = re.compile(
    r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{6})Z"
    r"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"
)
_MAX_DEPTH = 500
_ID_LENGTH = 36


@dataclass(frozen=True, slots=True)
class DottedOrder:
    """`parent_run_ids` from the root to the direct parent; `start_time` is that of the run itself."""

    trace_id: UUID
    parent_run_ids: list[UUID]
    start_time: datetime


def read_dotted_order(given: object, run_id: UUID) -> DottedOrder:
    """Segments `YYYYMMDDTHHMMSSffffffZ<uuid>` joined by dots, the last one of `run_id`.

    Raises:
        InvalidError: it is malformed, deeper than 500 levels, or another run's.
    """
    if not isinstance(given, str):
        raise InvalidError("dotted_order: expected a string.")
    segments = given.split(".", _MAX_DEPTH)
    match = None
    for segment in segments:
        match = _SEGMENT.fullmatch(segment)
        if match is None:
            raise InvalidError(f"dotted_order: {segment[:80]!r} is not a time and an id (or too deep).")
    assert match is not None
    if UUID(match[8]) != run_id:
        raise InvalidError(f"dotted_order ends with another id than the run's, {run_id}.")
    try:
        start_time = datetime(*(int(part) for part in match.groups()[:7]), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        raise InvalidError(f"dotted_order: {segments[-1][:22]!r} is not a time.") from None
    ids = [UUID(segment[-_ID_LENGTH:]) for segment in segments[:-1]]
    return DottedOrder(ids[0] if ids else run_id, ids, start_time)


def segment_of(run_id: UUID, start_time: datetime) -> str:
    """A run's own segment."""
    return f"{start_time.astimezone(UTC):%Y%m%dT%H%M%S%f}Z{run_id}"
