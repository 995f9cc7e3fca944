"""Bodies of the cron endpoints (contract §3.6)."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field

from api.agent_server.parameters import AssistantId, Filter, Limit, Metadata, Name, Offset, ThreadId
from api.agent_server.schemas import MultitaskStrategy, NodeNames, RunConfig, SortOrder, StreamMode


def _in_utc_unless_told(value: Any) -> Any:
    """A time without an offset is meant in UTC."""
    if isinstance(value, str) and "T" in value.upper():
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return value
        return value if moment.tzinfo else f"{value}Z"
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_in_utc_unless_told)]


Schedule = Annotated[
    str, Field(max_length=512, description="Five cron fields, or six: the sixth is seconds.")
]


class _CronRun(BaseModel):
    """What a cron's runs are made of."""

    input: Any = None
    metadata: Metadata | None = None
    config: RunConfig | None = None
    context: dict[str, Any] | None = None
    webhook: str | None = Field(default=None, max_length=65_536)
    interrupt_before: NodeNames | None = None
    interrupt_after: NodeNames | None = None
    multitask_strategy: MultitaskStrategy | None = None
    stream_mode: StreamMode | Annotated[list[StreamMode], Field(max_length=9)] | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None
    durability: Literal["async", "sync", "exit"] | None = None
    checkpoint_during: bool | None = None


RUN_FIELDS = frozenset(_CronRun.model_fields)


class CronCreate(_CronRun):
    assistant_id: AssistantId | str
    schedule: Schedule
    timezone: Name | None = None
    end_time: Moment | None = None
    enabled: bool | None = None
    on_run_completed: Literal["delete", "keep"] | None = None


class CronUpdate(_CronRun):
    """What is left out stays; `end_time: null` and `timezone: null` clear."""

    schedule: Schedule | None = None
    timezone: Name | None = None
    end_time: Moment | None = None
    enabled: bool | None = None
    on_run_completed: Literal["delete", "keep"] | None = None


class Cron(BaseModel):
    cron_id: UUID
    assistant_id: UUID
    thread_id: UUID | None
    user_id: str | None
    end_time: datetime | None
    schedule: str
    timezone: str | None
    payload: dict[str, Any]
    next_run_date: datetime | None
    metadata: dict[str, Any]
    on_run_completed: Literal["delete", "keep"]
    enabled: bool
    created_at: datetime
    updated_at: datetime


class CronPart(BaseModel):
    """A cron, or the fields of it that `select` named."""

    cron_id: UUID | None = None
    assistant_id: UUID | None = None
    thread_id: UUID | None = None
    user_id: str | None = None
    end_time: datetime | None = None
    schedule: str | None = None
    timezone: str | None = None
    payload: dict[str, Any] | None = None
    next_run_date: datetime | None = None
    metadata: dict[str, Any] | None = None
    on_run_completed: Literal["delete", "keep"] | None = None
    enabled: bool | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


CronField = Literal[
    "cron_id",
    "assistant_id",
    "thread_id",
    "on_run_completed",
    "end_time",
    "schedule",
    "timezone",
    "created_at",
    "updated_at",
    "user_id",
    "payload",
    "next_run_date",
    "metadata",
    "enabled",
]


class CronCount(BaseModel):
    assistant_id: AssistantId | str | None = None
    thread_id: ThreadId | None = None
    enabled: bool | None = None
    metadata: Filter | None = None


class CronSearch(CronCount):
    limit: Limit = 10
    offset: Offset = 0
    sort_by: (
        Literal[
            "cron_id",
            "assistant_id",
            "thread_id",
            "next_run_date",
            "end_time",
            "created_at",
            "updated_at",
        ]
        | None
    ) = None
    sort_order: SortOrder | None = None
    select: Annotated[list[CronField], Field(max_length=100)] | None = None
