"""Bodies of the threads' requests and answers (contract §3.3)."""

import re
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from api.agent_server.parameters import (
    MAX_LIST_LIMIT,
    Filter,
    Limit,
    Metadata,
    Name,
    Offset,
    ThreadId,
    Timestamp,
)
from api.agent_server.schemas import SortOrder, Thread, Ttl
from api.agent_server.state_schemas import Superstep
from storage.thread_search import Extraction

ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
ThreadField = Literal[
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "context",
    "status",
    "values",
    "interrupts",
    "error",
]
ThreadIds = Annotated[list[ThreadId], Field(max_length=MAX_LIST_LIMIT)]

_PATH = re.compile(r"(values|metadata|config|interrupts|error)((?:\.[^.\[\]]+|\[-?\d{1,9}\])*)", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(-?\d+)\]", re.DOTALL)


class ThreadCreate(BaseModel):
    thread_id: ThreadId | None = None
    metadata: Metadata | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    ttl: Ttl | None = None
    supersteps: list[Superstep] | None = Field(
        default=None, max_length=1_000, description="Initial state, as updates; needs metadata.graph_id."
    )


class ThreadPatch(BaseModel):
    """Metadata is merged, one level deep; a ttl counts from now."""

    metadata: Metadata | None = None
    ttl: Ttl | None = None


class ThreadTtl(BaseModel):
    strategy: Literal["delete", "keep_latest"]
    ttl_minutes: float
    expires_at: Timestamp


class ThreadWithTtl(Thread):
    """A thread; `ttl` only where it was asked for."""

    ttl: ThreadTtl | None = None


class ThreadPart(BaseModel):
    """A thread, or the fields of it that `select` named; `extracted` by alias."""

    thread_id: UUID | None = None
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    state_updated_at: Timestamp | None = None
    metadata: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    status: ThreadStatus | None = None
    values: Any = None
    interrupts: dict[str, Any] | None = None
    error: Any = None
    extracted: dict[str, Any] | None = None


def _parsed_path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise PydanticCustomError(
            "path",
            "must be like values.messages[-1].content, below values, metadata, config, interrupts or error",
        )
    return text


class ThreadFilter(BaseModel):
    metadata: Filter | None = None
    values: Filter | None = None
    status: ThreadStatus | None = None


class ThreadSearch(ThreadFilter):
    ids: ThreadIds | None = None
    limit: Limit = 10
    offset: Offset = 0
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] | None = None
    sort_order: SortOrder | None = None
    select: Annotated[list[ThreadField], Field(max_length=100)] | None = None
    extract: (
        Annotated[dict[Name, Annotated[Name, AfterValidator(_parsed_path)]], Field(max_length=10)] | None
    ) = None

    def extractions(self) -> list[Extraction]:
        """What `extract` asks for, by alias."""
        found = []
        for alias, path in (self.extract or {}).items():
            matched = _PATH.fullmatch(path)
            assert matched is not None
            steps = [name or index for name, index in _STEP.findall(matched[2])]
            found.append(Extraction(alias, matched[1], steps))
        return found


class ThreadPrune(BaseModel):
    thread_ids: ThreadIds
    strategy: Literal["delete", "keep_latest"] = "delete"


class Pruned(BaseModel):
    pruned_count: int


class Stored(BaseModel):
    count: int
    bytes: int


class StoredChannels(Stored):
    by_channel: dict[str, Stored]


class ThreadStorage(BaseModel):
    """What a thread's checkpoints take, in bytes as stored."""

    thread_id: UUID
    total_bytes: int
    checkpoints: Stored
    channel_values: StoredChannels
    pending_writes: Stored
