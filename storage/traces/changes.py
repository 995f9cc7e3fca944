"""What one request says about one run: a create or a patch, checked and typed."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

# Order is part of the stored format: a field's place in `field_ranks` (storage.traces.merge).
FIELDS = (
    "session_id",
    "trace_id",
    "parent_run_id",
    "dotted_order",
    "reference_example_id",
    "name",
    "run_type",
    "start_time",
    "end_time",
    "error",
    "tags",
    "inputs",
    "outputs",
    "extra",
    "events",
    "serialized",
)
# What is derived from a field and kept beside it, replaced whenever the field is.
DERIVED = {
    "dotted_order": ("parent_run_ids",),
    "extra": ("metadata_pairs", "extra_usage", "model"),
    "outputs": ("outputs_usage",),
    "events": ("first_token_time",),
}


class RunType(StrEnum):
    TOOL = "tool"
    CHAIN = "chain"
    LLM = "llm"
    RETRIEVER = "retriever"
    EMBEDDING = "embedding"
    PROMPT = "prompt"
    PARSER = "parser"


@dataclass(slots=True)
class Attachment:
    """A file of a run. `key` is its object's key once it is stored."""

    name: str
    mime_type: str
    data: bytes
    key: str | None = None


@dataclass(slots=True)
class RunChange:
    """A create or a patch of one run.

    `values` holds fields of `FIELDS` and what is derived from them, only where the client sent them; JSON documents
    are JSON text. `provisional` names the fields that are guesses: whatever a client says later replaces them.
    """

    run_id: UUID
    is_create: bool
    values: dict[str, Any]
    session_name: str | None = None
    provisional: frozenset[str] = frozenset()
    attachments: list[Attachment] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.values.get("end_time") is not None


@dataclass(slots=True)
class FeedbackChange:
    """A feedback record to create, or to replace whole if its id exists."""

    feedback_id: UUID
    key: str
    values: dict[str, Any]
    run_id: UUID | None = None
    trace_id: UUID | None = None
    session_id: UUID | None = None
    session_name: str | None = None
    created_at: datetime | None = None
