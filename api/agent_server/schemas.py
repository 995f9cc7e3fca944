"""Bodies of the agent server's requests and answers (contract §3)."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from api.agent_server.parameters import AssistantId, Metadata, RunId, ThreadId, Timestamp

StreamMode = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"
]
MultitaskStrategy = Literal["enqueue", "reject", "interrupt", "rollback"]
SortOrder = Literal["asc", "desc"]
NodeNames = Literal["*"] | Annotated[list[str], Field(max_length=1_000)]


class Assistant(BaseModel):
    """Contract §3.2."""

    assistant_id: UUID
    graph_id: str
    name: str
    description: str | None
    config: dict[str, Any]
    context: dict[str, Any]
    metadata: dict[str, Any]
    version: int
    created_at: Timestamp
    updated_at: Timestamp


class Ttl(BaseModel):
    strategy: Literal["delete", "keep_latest"] = "delete"
    ttl: float = Field(gt=0, le=60 * 24 * 3650, description="Minutes.")


class Thread(BaseModel):
    """Contract §3.3."""

    thread_id: UUID
    created_at: Timestamp
    updated_at: Timestamp
    state_updated_at: Timestamp | None
    metadata: dict[str, Any]
    config: dict[str, Any]
    status: Literal["idle", "busy", "interrupted", "error"]
    values: Any
    interrupts: dict[str, Any]
    error: Any = None


class ThreadState(BaseModel):
    """Contract §3.3; of a thread without runs everything is empty."""

    values: Any = Field(default_factory=dict)
    next: list[str] = []
    tasks: list[dict[str, Any]] = []
    metadata: dict[str, Any] | None = None
    created_at: Timestamp | None = None
    checkpoint: dict[str, Any] | None = None
    parent_checkpoint: dict[str, Any] | None = None
    interrupts: list[Any] = []
    checkpoint_id: str | None = None
    parent_checkpoint_id: str | None = None


class RunConfig(BaseModel, extra="allow"):
    tags: list[str] = Field(default=[], max_length=100)
    recursion_limit: int | None = Field(default=None, ge=1, le=100_000)
    configurable: dict[str, Any] = {}


class Send(BaseModel):
    node: str
    input: Any = None


class RunCommand(BaseModel):
    update: dict[str, Any] | list[Any] | None = None
    resume: Any = None
    goto: str | Send | list[str | Send] | None = None


class CheckpointConfig(BaseModel):
    checkpoint_id: str | None = None
    checkpoint_ns: str = ""
    checkpoint_map: dict[str, Any] | None = None


class LangsmithTracer(BaseModel):
    project_name: str | None = None
    example_id: str | None = None


class RunCreate(BaseModel):
    """Contract §3.4."""

    assistant_id: AssistantId | str
    input: Any = None
    command: RunCommand | None = None
    metadata: Metadata | None = None
    config: RunConfig | None = None
    context: dict[str, Any] | None = None
    checkpoint: CheckpointConfig | None = None
    checkpoint_id: str | None = None
    interrupt_before: NodeNames | None = None
    interrupt_after: NodeNames | None = None
    stream_mode: StreamMode | Annotated[list[StreamMode], Field(max_length=9)] | None = None
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    feedback_keys: list[str] | None = Field(default=None, max_length=100)
    webhook: str | None = Field(default=None, max_length=65_536)
    multitask_strategy: MultitaskStrategy | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    after_seconds: float | None = Field(default=None, ge=0, le=366 * 86_400)
    durability: Literal["async", "sync", "exit"] | None = None
    checkpoint_during: bool | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    langsmith_tracer: LangsmithTracer | None = None


class Run(BaseModel):
    """Contract §3.4."""

    run_id: UUID
    thread_id: UUID
    assistant_id: UUID
    created_at: Timestamp
    updated_at: Timestamp
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"]
    metadata: dict[str, Any]
    kwargs: dict[str, Any]
    multitask_strategy: MultitaskStrategy
    langsmith_session_name: str | None = None


RunField = Literal[
    "run_id",
    "thread_id",
    "assistant_id",
    "created_at",
    "updated_at",
    "status",
    "metadata",
    "kwargs",
    "multitask_strategy",
    "langsmith_session_name",
]


class RunsCancel(BaseModel):
    """Either a status, or a thread and runs of it."""

    status: Literal["pending", "running", "all"] | None = None
    thread_id: ThreadId | None = None
    run_ids: list[RunId] | None = Field(default=None, min_length=1, max_length=1_000)

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> "RunsCancel":
        if (self.status is None) == (self.thread_id is None and self.run_ids is None):
            raise PydanticCustomError("choice", "give either status, or thread_id with run_ids")
        if (self.thread_id is None) != (self.run_ids is None):
            raise PydanticCustomError("choice", "thread_id and run_ids belong together")
        return self
