"""What clients send about examples, as multipart or JSON, checked (trace contract §5.8)."""

from typing import Any
from uuid import UUID

from api.errors import InvalidError
from api.traces.documents import dump_json_text, read_json
from api.traces.multipart import Part, read_parts
from api.traces.run_reader import read_time, read_uuid
from api.traces.text import is_clean
from storage.example_changes import ExampleChange
from storage.ids import new_id
from storage.traces.changes import Attachment

_MAX_EXAMPLES = 10_000
_MAX_SPLITS = 100


class ExampleDraft:
    """One example's parts, collected. `body` holds what is not part of the example itself (dataset_id, source run)."""

    def __init__(self, example_id: UUID) -> None:
        self.change = ExampleChange(example_id)
        self.body: dict[str, Any] = {}


def read_example_parts(body: bytes | bytearray, boundary: bytes) -> list[ExampleDraft]:
    """Parts `<id>`, `<id>.inputs`, `<id>.outputs`, `<id>.attachment.<name>`, `<id>.attachments_operations`.

    Raises:
        InvalidError: the body or a part is malformed.
    """
    drafts: dict[UUID, ExampleDraft] = {}
    for part in read_parts(body, boundary):
        identifier, _, tail = part.name.partition(".")
        example_id = read_uuid(identifier, part.name)
        draft = drafts.get(example_id)
        if draft is None:
            if tail:
                raise InvalidError(f"Part {part.name[:120]!r} comes before its example.")
            draft = drafts[example_id] = ExampleDraft(example_id)
        _take(draft, part, tail)
    if not 0 < len(drafts) <= _MAX_EXAMPLES:
        raise InvalidError(f"Expected 1 to {_MAX_EXAMPLES} examples.")
    return list(drafts.values())


def read_examples(value: Any) -> list[ExampleDraft]:
    """A JSON array of examples.

    Raises:
        InvalidError: it is something else, or an example is malformed.
    """
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_EXAMPLES:
        raise InvalidError(f"Expected an array of 1 to {_MAX_EXAMPLES} examples.")
    return [read_example(item) for item in value]


def read_example(value: Any, example_id: UUID | None = None) -> ExampleDraft:
    """One example from its JSON object; a missing id is made.

    Raises:
        InvalidError: a field has the wrong type.
    """
    if not isinstance(value, dict):
        raise InvalidError("Example: expected a JSON object.")
    given = read_uuid(value["id"], "id") if value.get("id") is not None else None
    draft = ExampleDraft(example_id or given or new_id())
    _read_body(draft, value)
    draft.change.inputs = _document(value.get("inputs"), "inputs")
    draft.change.outputs = _document(value.get("outputs"), "outputs")
    _read_operations(draft.change, value.get("attachments_operations"))
    return draft


def _take(draft: ExampleDraft, part: Part, tail: str) -> None:
    kind, _, name = tail.partition(".")
    if kind == "attachment" and name:
        if len(name) > 255 or not is_clean(name):
            raise InvalidError("An attachment's name has at most 255 characters.")
        mime_type = part.content_type or "application/octet-stream"
        draft.change.attachments.append(Attachment(name, mime_type, bytes(part.data)))
        return
    value, _ = read_json(part.data, f"Part {part.name[:120]}")
    match tail:
        case "":
            if not isinstance(value, dict):
                raise InvalidError(f"Part {part.name}: expected a JSON object.")
            _read_body(draft, value)
        case "inputs":
            draft.change.inputs = _document(value, "inputs")
        case "outputs":
            draft.change.outputs = _document(value, "outputs")
        case "attachments_operations":
            _read_operations(draft.change, value)
        case _:
            raise InvalidError(f"Part {part.name[:120]!r}: an example has no such part.")


def _read_body(draft: ExampleDraft, value: dict[str, Any]) -> None:
    change = draft.change
    draft.body = value
    metadata = value.get("metadata")
    if metadata is not None:
        if not isinstance(metadata, dict) or not is_clean(dump_json_text(metadata, "metadata")):
            raise InvalidError("metadata: expected an object without NUL characters.")
        change.metadata = metadata
    split = value.get("split")
    if split is not None:
        change.splits = read_splits([split] if isinstance(split, str) else split)
    elif metadata is not None and metadata.get("dataset_split") is not None:
        given = metadata["dataset_split"]
        change.splits = read_splits([given] if isinstance(given, str) else given)
    if value.get("source_run_id") is not None:
        change.source_run_id = read_uuid(value["source_run_id"], "source_run_id")
    if value.get("created_at") is not None:
        change.created_at = read_time(value["created_at"], "created_at")


def read_splits(value: Any) -> list[str]:
    """Names of splits.

    Raises:
        InvalidError: not an array of short strings.
    """
    if (
        not isinstance(value, list)
        or len(value) > _MAX_SPLITS
        or not all(isinstance(name, str) and 0 < len(name) <= 255 and is_clean(name) for name in value)
    ):
        raise InvalidError(f"split: expected up to {_MAX_SPLITS} names of at most 255 characters.")
    return list(dict.fromkeys(value))


def _document(value: Any, name: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidError(f"{name}: expected an object.")
    dump_json_text(value, name)
    return value


def _read_operations(change: ExampleChange, value: Any) -> None:
    if value is None:
        return
    retain = value.get("retain") if isinstance(value, dict) else value
    rename = value.get("rename") if isinstance(value, dict) else None
    renamed = list(rename.values()) if isinstance(rename, dict) else rename or []
    if not _is_names(retain or []) or not _is_names(renamed):
        raise InvalidError('attachments_operations: expected {"retain": [names], "rename": {old: new}}.')
    change.retain, change.rename = retain or [], rename if isinstance(rename, dict) else {}


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(name, str) and 0 < len(name) <= 255 and is_clean(name) for name in value
    )
