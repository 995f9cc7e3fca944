"""Parameters of A2A methods: what either version sends, in one form."""

from typing import Any, Literal
from uuid import UUID

import orjson
from pydantic import BaseModel, Field
from pydantic.alias_generators import to_camel

from api.agent_server.jsonrpc import INVALID_PARAMS, RpcError

CONTENT_TYPE_NOT_SUPPORTED = -32005
TASK_NOT_FOUND = -32001
_MAX_ID = 256


class _Wire(BaseModel, extra="ignore", alias_generator=to_camel, validate_by_name=True):
    """Fields are camelCase on the wire."""


class Part(_Wire):
    """A text, a document, or a file (`file` in 0.3; `raw` or `url` in 1.0)."""

    kind: str | None = None
    text: str | None = None
    data: Any = None
    file: Any = None
    raw: str | None = None
    url: str | None = None


class Message(_Wire):
    role: Literal["user", "agent", "ROLE_USER", "ROLE_AGENT"]
    message_id: str = Field(min_length=1, max_length=_MAX_ID)
    parts: list[Part] = Field(min_length=1, max_length=1_000)
    context_id: str | None = None
    task_id: str | None = None


class SendConfiguration(_Wire):
    blocking: bool | None = None
    return_immediately: bool | None = None
    history_length: int | None = Field(default=None, ge=0)
    accepted_output_modes: list[str] | None = None


class SendParams(_Wire):
    message: Message
    configuration: SendConfiguration = SendConfiguration()
    metadata: dict[str, Any] | None = None


class TaskParams(_Wire):
    id: str = Field(max_length=_MAX_ID)
    history_length: int | None = Field(default=None, ge=0)


class ListParams(_Wire):
    context_id: str | None = None
    status: str | None = None
    page_size: int = Field(default=50, ge=1, le=100)
    page_token: str | None = Field(default=None, max_length=20)
    history_length: int | None = Field(default=None, ge=0)
    include_artifacts: bool = False


def text_of(message: Message) -> str:
    """The message as one text; documents as JSON.

    Raises:
        RpcError: a part is a file, or empty.
    """
    return "\n".join(_part_text(part) for part in message.parts)


def _part_text(part: Part) -> str:
    if part.text is not None:
        return part.text
    if part.data is not None:
        return orjson.dumps(part.data).decode()
    if part.file is not None or part.raw is not None or part.url is not None:
        raise RpcError(CONTENT_TYPE_NOT_SUPPORTED, "Files are not supported: send text or data parts.")
    raise RpcError(INVALID_PARAMS, "Invalid params: a part holds neither text nor data.")


def context_of(text: str | None) -> UUID | None:
    """A thread's id.

    Raises:
        RpcError: it is no UUID.
    """
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise RpcError(INVALID_PARAMS, "Invalid params: contextId must be a UUID.") from None


def task_of(text: str) -> tuple[UUID, UUID]:
    """Thread and run of a task's id `<thread>:<run>`.

    Raises:
        RpcError: no task has such an id.
    """
    thread, _, run = text.partition(":")
    try:
        return UUID(thread), UUID(run)
    except ValueError:
        raise RpcError(TASK_NOT_FOUND, f"Task {text} not found.") from None
