"""Bodies of the assistants' requests and answers (contract §3.2)."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from api.agent_server.parameters import AssistantId, Filter, Limit, Metadata, Name, Offset, Text, Timestamp
from api.agent_server.schemas import RunConfig, SortOrder

AssistantField = Literal[
    "assistant_id",
    "graph_id",
    "name",
    "description",
    "config",
    "context",
    "created_at",
    "updated_at",
    "metadata",
    "version",
]
AssistantFields = Annotated[list[AssistantField], Field(max_length=100)]


class AssistantVersion(BaseModel):
    """An assistant as of one version."""

    assistant_id: UUID
    graph_id: str
    name: str
    description: str | None
    config: dict[str, Any]
    context: dict[str, Any]
    metadata: dict[str, Any]
    version: int
    created_at: Timestamp


class AssistantPart(BaseModel):
    """An assistant, or the fields of it that `select` named."""

    assistant_id: UUID | None = None
    graph_id: str | None = None
    name: str | None = None
    description: str | None = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    version: int | None = None
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None


class AssistantCreate(BaseModel):
    graph_id: Name
    assistant_id: AssistantId | None = None
    name: Name | None = None
    description: Text | None = None
    config: RunConfig | None = None
    context: dict[str, Any] | None = None
    metadata: Metadata | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None


class AssistantPatch(BaseModel):
    """What is left out stays; metadata is merged, config and context are replaced."""

    graph_id: Name | None = None
    name: Name | None = None
    description: Text | None = None
    config: RunConfig | None = None
    context: dict[str, Any] | None = None
    metadata: Metadata | None = None


class AssistantFilter(BaseModel):
    metadata: Filter | None = None
    graph_id: Name | None = None
    name: Name | None = Field(default=None, description="Part of the name, in upper or lower case.")


class AssistantSearch(AssistantFilter):
    limit: Limit = 10
    offset: Offset = 0
    sort_by: Literal["assistant_id", "created_at", "updated_at", "name", "graph_id"] | None = None
    sort_order: SortOrder | None = None
    select: AssistantFields | None = None


class VersionSearch(BaseModel):
    metadata: Filter | None = None
    limit: Limit = 10
    offset: Offset = 0


class LatestVersion(BaseModel):
    version: int = Field(ge=1, le=2**31 - 1)


class GraphDrawing(BaseModel):
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]


class GraphSchemas(BaseModel):
    """JSON schemas of a graph; null where it has none."""

    graph_id: str
    input_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    state_schema: dict[str, Any] | None
    config_schema: dict[str, Any] | None
    context_schema: dict[str, Any] | None
