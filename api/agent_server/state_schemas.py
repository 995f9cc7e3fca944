"""Bodies of requests about a thread's state (contract §3.3)."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from api.agent_server.parameters import Filter, Limit, Name, Text
from api.agent_server.schemas import RunCommand

_FIELDS = frozenset(
    {"values", "next", "tasks", "checkpoint", "metadata", "created_at", "parent_checkpoint", "interrupts"}
)
_KEY = re.compile(r"values\..+", re.DOTALL)


def _known_field(name: str) -> str:
    if name not in _FIELDS and not _KEY.fullmatch(name):
        raise PydanticCustomError(
            "unknown_field",
            "unknown field {name}; known are {fields} and values.<key>",
            {"name": name, "fields": ", ".join(sorted(_FIELDS))},
        )
    return name


StateField = Annotated[Name, AfterValidator(_known_field)]
StateFields = Annotated[list[StateField], Field(max_length=100)]


class Checkpoint(BaseModel):
    """Which state of a thread: by default the newest one of the root graph."""

    thread_id: Name | None = None
    checkpoint_ns: Text | None = None
    checkpoint_id: Name | None = None
    checkpoint_map: dict[str, Any] | None = None


class StateAt(BaseModel):
    checkpoint: Checkpoint
    subgraphs: bool = False
    select: StateFields | None = None


class CheckpointConfig(BaseModel):
    """A checkpoint as graphs name it."""

    configurable: Checkpoint


class HistorySearch(BaseModel):
    limit: Limit = 1
    before: Name | CheckpointConfig | Checkpoint | None = None
    metadata: Filter | None = None
    checkpoint: Checkpoint | None = None
    select: StateFields | None = None


class StateUpdate(BaseModel):
    """Values to write as if the node `as_node` had returned them."""

    values: dict[str, Any] | list[Any] | None = None
    as_node: Name | None = None
    checkpoint: Checkpoint | None = None
    checkpoint_id: Name | None = None


class SuperstepUpdate(BaseModel):
    values: dict[str, Any] | list[Any] | None = None
    command: RunCommand | None = None
    as_node: Name


class Superstep(BaseModel):
    """Updates that a graph would have made in one step."""

    updates: list[SuperstepUpdate] = Field(min_length=1, max_length=1_000)


class StateUpdated(BaseModel):
    checkpoint: dict[str, Any]
    configurable: dict[str, Any]
    checkpoint_id: str | None
