"""Path parameters and limits that the endpoints of the agent server share (contract §2)."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PlainSerializer
from pydantic_core import PydanticCustomError

MAX_METADATA_BYTES = 64 * 1024
MAX_LIST_LIMIT = 1_000


def _uuid(what: str) -> BeforeValidator:
    def parse(value: Any) -> Any:
        try:
            return UUID(str(value))
        except ValueError:
            raise PydanticCustomError("uuid_parsing", f"Invalid {what} ID: must be a UUID") from None

    return BeforeValidator(parse)


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    """Small enough to be indexed, and free of the one character that an index cannot hold."""
    text = orjson.dumps(value)
    if len(text) > MAX_METADATA_BYTES:
        raise PydanticCustomError("too_large", f"the object is larger than {MAX_METADATA_BYTES} bytes")
    if b"\\u0000" in text:
        raise PydanticCustomError("nul_character", "the object holds a NUL character")
    return value


def _bounded_metadata(value: dict[str, Any]) -> dict[str, Any]:
    value = _bounded(value)
    return {name: item for name, item in value.items() if name not in RESERVED_METADATA}


def _storable(value: str) -> str:
    if "\0" in value:
        raise PydanticCustomError("nul_character", "the text holds a NUL character")
    return value


RESERVED_METADATA = frozenset({"thread_id", "assistant_id", "run_id", "cron_id"})

ThreadId = Annotated[UUID, _uuid("thread")]
RunId = Annotated[UUID, _uuid("run")]
AssistantId = Annotated[UUID, _uuid("assistant")]
CronId = Annotated[UUID, _uuid("cron")]
Metadata = Annotated[dict[str, Any], AfterValidator(_bounded_metadata)]
# What a search compares with stored documents: no larger than metadata, nothing stripped.
Filter = Annotated[dict[str, Any], AfterValidator(_bounded)]
Name = Annotated[str, Field(max_length=1_000), AfterValidator(_storable)]
Text = Annotated[str, Field(max_length=65_536), AfterValidator(_storable)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIST_LIMIT)]
Offset = Annotated[int, Field(ge=0, le=2**31 - 1)]


# Everywhere in one form, whichever way an answer is written: ISO 8601 with the offset spelled out.
Timestamp = Annotated[datetime, PlainSerializer(datetime.isoformat, return_type=str, when_used="json")]


class ErrorResponse(BaseModel):
    """Every error of the agent server."""

    detail: str


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses=` of an endpoint: 401 and 422 always, and those named."""
    return {status: {"model": ErrorResponse} for status in (401, 403, 404, 422, 503, *statuses)}
