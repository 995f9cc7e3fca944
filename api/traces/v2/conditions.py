"""What the bodies of `/api/v2` have in common: projects, a window of time, filters, cursors, pages."""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.errors import BadRequestError, NotFoundError
from api.traces.answers import JsonAnswer
from api.traces.parameters import aware
from api.traces.v2.problems import NotOfferedError
from storage.database import Connection
from storage.project_lists import live_projects

Ids = Annotated[list[UUID], Field(max_length=1_000)]
Selects = Annotated[list[str], Field(max_length=200)]
DEFAULT_WINDOW = timedelta(days=1)


class Window(BaseModel):
    """Runs that started in [min_start_time, max_start_time): the last day up to now where nothing is given."""

    model_config = ConfigDict(extra="ignore")

    min_start_time: datetime | None = None
    max_start_time: datetime | None = None
    ai_search: str | None = None

    def refuse_what_is_not_offered(self) -> None:
        """
        Raises:
            NotOfferedError: `ai_search`.
        """
        if self.ai_search is not None:
            raise NotOfferedError(
                "ai_search is not offered here; use filter with search(…), like(…) or eq(…)."
            )

    def bounds(self) -> tuple[datetime, datetime]:
        until = aware(self.max_start_time) or datetime.now(UTC)
        return aware(self.min_start_time) or until - DEFAULT_WINDOW, until


async def require_projects(connection: Connection, tenant_id: UUID, project_ids: list[UUID]) -> None:
    """
    Raises:
        NotFoundError: the workspace does not have one of them.
    """
    missing = set(project_ids) - set(await live_projects(connection, tenant_id, project_ids))
    if missing:
        raise NotFoundError(f"Project {min(missing)} not found.")


def write_cursor(*place: Any) -> str:
    """An opaque text for the place where a page ended."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode()


def read_cursor(text: str | None, *types: type) -> list[Any] | None:
    """The place that `write_cursor` named, in the given types (datetime, UUID, str, int); None without a cursor.

    Raises:
        BadRequestError: it is not one of ours.
    """
    if not text:
        return None
    try:
        place = orjson.loads(base64.urlsafe_b64decode(text.encode()))
        if not isinstance(place, list) or len(place) != len(types):
            raise ValueError
        return [_read(kind, value) for kind, value in zip(types, place, strict=True)]
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise BadRequestError("cursor: not one that this query gave out.") from None


def _read(kind: type, value: Any) -> Any:
    if kind is datetime:
        return datetime.fromisoformat(value)
    if kind is UUID:
        return UUID(value)
    if not isinstance(value, kind):
        raise ValueError
    return value


def page_answer(request: Request, items: list[Any], next_cursor: str | None) -> Response:
    """`{items, next_cursor}`; for a client that accepts a stream of events, as one JSON Patch that adds all of it."""
    page = {"items": items, "next_cursor": next_cursor}
    if "text/event-stream" not in request.headers.get("accept", ""):
        return JsonAnswer(page)
    patch = orjson.dumps([{"op": "add", "path": "", "value": page}], option=orjson.OPT_NON_STR_KEYS)
    return Response(b"data: " + patch + b"\n\n", media_type="text/event-stream")
