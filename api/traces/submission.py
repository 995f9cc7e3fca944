"""What one ingestion request asks for: read off the wire, checked as a whole before anything is stored."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson

from api.errors import InvalidError
from api.traces.documents import read_json
from api.traces.feedback_reader import read_feedback
from api.traces.multipart import Part, read_parts
from api.traces.run_reader import DOCUMENTS, read_run, read_uuid
from storage.traces.changes import Attachment, FeedbackChange, RunChange

_EVENTS = ("post", "patch")
_MAX_ATTACHMENT_NAME = 255
_MAX_RUNS = 20_000


@dataclass
class Submission:
    changes: list[RunChange] = field(default_factory=list)
    feedback: list[FeedbackChange] = field(default_factory=list)


def read_multipart(body: bytes | bytearray, boundary: bytes) -> Submission:
    """Parts `post.<id>`, `patch.<id>`, `<either>.<id>.<document>`, `attachment.<id>.<name>`, `feedback.<id>`, in order.

    Raises:
        InvalidError: the body or a part is malformed.
    """
    drafts: dict[tuple[str, str], _Draft] = {}
    order: list[_Draft] = []
    attachments: list[tuple[UUID, Attachment]] = []
    submission = Submission()
    for part in read_parts(body, boundary):
        event, _, rest = part.name.partition(".")
        identifier, _, tail = rest.partition(".")
        if event in _EVENTS:
            draft = drafts.get((event, identifier))
            if draft is None or draft.refuses(tail):
                draft = drafts[event, identifier] = _Draft(event, read_uuid(identifier, part.name))
                order.append(draft)
            draft.take(part, tail)
        elif event == "feedback":
            value, _ = read_json(part.data, f"Part {part.name}")
            submission.feedback.append(read_feedback(value, _feedback_id(identifier, value)))
        elif event == "attachment":
            attachments.append((read_uuid(identifier, part.name), _read_attachment(part, tail)))
        else:
            raise InvalidError(f"Part {part.name[:80]!r}: expected post, patch, feedback or attachment.")
    submission.changes = [draft.read() for draft in order]
    _attach(submission, attachments)
    return submission


def read_batch(body: bytes | bytearray) -> Submission:
    """`{"post": [run…], "patch": [run…]}`.

    Raises:
        InvalidError: not that, or a run is malformed.
    """
    value = read_object(body)
    submission = Submission()
    for event in _EVENTS:
        runs = value.get(event) or []
        if not isinstance(runs, list) or len(runs) > _MAX_RUNS:
            raise InvalidError(f"{event}: expected an array of at most {_MAX_RUNS} runs.")
        for run in runs:
            if not isinstance(run, dict):
                raise InvalidError(f"{event}: expected an array of runs.")
            submission.changes.append(read_run(read_uuid(run.get("id"), "id"), event == "post", run))
    return submission


def read_object(body: bytes | bytearray) -> dict[str, Any]:
    """A JSON object.

    Raises:
        InvalidError: it is something else.
    """
    value, _ = read_json(body, "The body")
    if not isinstance(value, dict):
        raise InvalidError("The body: expected a JSON object.")
    return value


class _Draft:
    """The parts of one create or patch, until its last one came."""

    def __init__(self, event: str, run_id: UUID) -> None:
        self._event = event
        self._run_id = run_id
        self._main: memoryview | None = None
        self._documents: dict[str, bytes | memoryview] = {}

    def refuses(self, tail: str) -> bool:
        """Whether the part belongs to the next change of the same run."""
        return self._main is not None if not tail else tail in self._documents

    def take(self, part: Part, tail: str) -> None:
        if not tail:
            self._main = part.data
        elif tail in DOCUMENTS:
            self._documents[tail] = _as_json(part) if tail == "error" else part.data
        else:
            raise InvalidError(f"Part {part.name[:120]!r}: a run has no document of that name.")

    def read(self) -> RunChange:
        if self._main is None:
            raise InvalidError(f"Part {self._event}.{self._run_id} is missing.")
        value, _ = read_json(self._main, f"Part {self._event}.{self._run_id}")
        return read_run(self._run_id, self._event == "post", value, self._documents)


def _as_json(part: Part) -> bytes | memoryview:
    if part.content_type.lower().startswith("text/"):
        return orjson.dumps(str(part.data, "utf-8", "replace"))
    return part.data


def _feedback_id(identifier: str, value: Any) -> UUID | None:
    """The part is named after the feedback, or, by some clients, after the run; then the body has the id."""
    if isinstance(value, dict) and value.get("id") is not None:
        return None
    return read_uuid(identifier, "feedback")


def _read_attachment(part: Part, name: str) -> Attachment:
    if not 0 < len(name) <= _MAX_ATTACHMENT_NAME or "." in name or "\x00" in name:
        raise InvalidError(
            f"Attachment {name[:80]!r}: a name has 1 to {_MAX_ATTACHMENT_NAME} characters and no dot."
        )
    return Attachment(name, part.content_type or "application/octet-stream", bytes(part.data))


def _attach(submission: Submission, attachments: list[tuple[UUID, Attachment]]) -> None:
    latest = {change.run_id: change for change in submission.changes}
    for run_id, attachment in attachments:
        change = latest.get(run_id)
        if change is None:
            change = latest[run_id] = RunChange(run_id, False, {})
            submission.changes.append(change)
        change.attachments.append(attachment)
