"""What clients of the streaming protocol send (streaming contract §1.4, §1.6). Unknown keys are ignored."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt
from pydantic_core import PydanticCustomError

from api.agent_server.parameters import AssistantId, Metadata, RunId
from api.agent_server.schemas import RunConfig
from api.agent_server.streams.protocol_events import CHANNELS, Selection

_MAX_NAME = 512
_MAX_DEPTH = 100


def _channel(value: str) -> str:
    if value in CHANNELS or (value.startswith("custom:") and len(value) > len("custom:")):
        return value
    raise PydanticCustomError(
        "channel", f"unknown channel {value!r}; known are {', '.join(CHANNELS)}, custom:<name>"
    )


Channel = Annotated[str, Field(max_length=_MAX_NAME), AfterValidator(_channel)]
Segment = Annotated[str, Field(max_length=_MAX_NAME)]
Namespace = Annotated[list[Segment], Field(max_length=_MAX_DEPTH)]


class Subscribe(BaseModel):
    """Body of a stream, and of `subscription.subscribe`."""

    channels: list[Channel] = Field(min_length=1, max_length=100)
    namespaces: list[Namespace] | None = Field(default=None, max_length=1_000)
    depth: int | None = Field(default=None, ge=0, le=_MAX_DEPTH)
    since: int | None = Field(default=None, ge=0, le=2**62)

    @property
    def selection(self) -> Selection:
        return Selection(
            frozenset(self.channels), tuple(tuple(prefix) for prefix in self.namespaces or ()), self.depth
        )


class Resubscribe(Subscribe):
    since: int = Field(ge=0, le=2**62)
    subscription_id: str | None = Field(default=None, max_length=_MAX_NAME)


class Unsubscribe(BaseModel):
    subscription_id: str = Field(max_length=_MAX_NAME)


class Command(BaseModel):
    """The envelope of a command."""

    id: StrictInt = Field(ge=0, le=2**53)
    method: str = Field(min_length=1, max_length=_MAX_NAME)
    params: dict[str, Any] = Field(default_factory=dict)


class Tracer(BaseModel):
    project_name: str | None = None
    example_id: str | None = None


class RunStart(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    assistant_id: AssistantId | str
    input: Any = None
    config: RunConfig | None = None
    metadata: Metadata | None = None
    langsmith_tracer: Tracer | None = None
    multitask_strategy: Literal["reject", "rollback", "interrupt", "enqueue"] | None = None
    multitask_strategy_alias: Literal["reject", "rollback", "interrupt", "enqueue"] | None = Field(
        default=None, alias="multitaskStrategy"
    )


class Answer(BaseModel):
    namespace: Namespace = Field(default_factory=list)
    interrupt_id: str = Field(min_length=1, max_length=_MAX_NAME)
    response: Any = None


class GotoNode(BaseModel):
    node: str = Field(min_length=1, max_length=_MAX_NAME)
    input: Any = None


class InputRespond(BaseModel):
    """One answer, or several at once."""

    interrupt_id: str | None = Field(default=None, min_length=1, max_length=_MAX_NAME)
    namespace: Namespace = Field(default_factory=list)
    response: Any = None
    responses: list[Answer] | None = Field(default=None, min_length=1, max_length=1_000)
    update: Any = None
    goto: str | GotoNode | list[str | GotoNode] | None = None
    config: RunConfig | None = None
    metadata: Metadata | None = None


class InjectedMessage(BaseModel):
    role: Literal["user", "system"]
    content: Any
    name: str | None = Field(default=None, max_length=_MAX_NAME)


class InputInject(BaseModel):
    namespace: Namespace = Field(default_factory=list)
    message: InjectedMessage


class GetTree(BaseModel):
    run_id: RunId | None = None


class StateGet(BaseModel):
    namespace: Namespace = Field(default_factory=list)
    keys: list[str] | None = Field(default=None, max_length=1_000)


class ListCheckpoints(BaseModel):
    namespace: Namespace = Field(default_factory=list)
    limit: int = Field(default=10, ge=1, le=1_000)
    before: str | None = Field(default=None, max_length=_MAX_NAME)


class StateFork(BaseModel):
    checkpoint_id: str = Field(min_length=1, max_length=_MAX_NAME)
    input: Any = None
    config: RunConfig | None = None
