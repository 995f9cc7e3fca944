"""Tokens that SDKs ask for, with which whoever has one rates one run under one key (trace contract §5.7)."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api.authentication import CurrentCaller
from api.errors import InvalidError, NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices, Services
from api.traces.feedback_reader import MAX_KEY
from api.traces.parameters import MAX_PAGE, Limit, Offset, aware
from api.traces.text import JsonObject, Text
from storage.feedback_configs import put_config
from storage.feedback_tokens import create_feedback_token, list_feedback_tokens
from storage.ids import new_id
from storage.traces.runs import get_run

router = APIRouter(prefix="/feedback/tokens", tags=["traces"], route_class=JsonRoute)

_LONGEST = timedelta(days=365)


class Duration(BaseModel):
    days: Annotated[int, Field(ge=0, le=365)] = 0
    hours: Annotated[int, Field(ge=0, le=10_000)] = 0
    minutes: Annotated[int, Field(ge=0, le=600_000)] = 0


class TokenRequest(BaseModel):
    """What the token is for, and when it ends: three hours from now where nothing is said."""

    model_config = ConfigDict(extra="ignore")

    run_id: UUID
    feedback_key: Annotated[Text, StringConstraints(min_length=1, max_length=MAX_KEY)]
    feedback_config: JsonObject | None = None
    expires_in: Duration | None = None
    expires_at: datetime | None = None
    id: UUID | None = None

    def end(self) -> datetime:
        """
        Raises:
            InvalidError: it has passed, or is more than a year away.
        """
        now = datetime.now(UTC)
        duration = timedelta(**self.expires_in.model_dump()) if self.expires_in else timedelta(hours=3)
        end = aware(self.expires_at) or now + duration
        if not now < end <= now + _LONGEST:
            raise InvalidError("expires_at: expected a time within the next 365 days.")
        return end


class FeedbackToken(BaseModel):
    """`url`: where to POST `score`, `value`, `comment` and `correction` until the token ends."""

    id: UUID
    url: str
    expires_at: datetime


Requests = Annotated[list[TokenRequest], Field(min_length=1, max_length=100)]


@router.post("")
async def create(
    body: Annotated[TokenRequest | Requests, Body()], services: CurrentServices, caller: CurrentCaller
) -> FeedbackToken | list[FeedbackToken]:
    """A token for a run and a feedback key, or several."""
    requests = body if isinstance(body, list) else [body]
    ends = [request.end() for request in requests]
    rows = []
    async with services.database.transaction() as connection:
        for request, end in zip(requests, ends, strict=True):
            if await get_run(connection, caller.tenant_id, request.run_id) is None:
                raise NotFoundError(f"Run {request.run_id} not found.")
            if request.feedback_config is not None:
                await put_config(
                    connection,
                    caller.tenant_id,
                    request.feedback_key,
                    request.feedback_config,
                    replace=False,
                )
            fields = request.model_dump(include={"run_id", "feedback_key"})
            fields |= {"feedback_id": request.id or new_id(), "expires_at": end}
            rows.append(await create_feedback_token(connection, caller.tenant_id, fields))
    tokens = [_shape(services, row) for row in rows]
    return tokens if isinstance(body, list) else tokens[0]


@router.get("")
async def list_tokens(
    run_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    limit: Limit = MAX_PAGE,
    offset: Offset = 0,
) -> list[FeedbackToken]:
    """Tokens about a run that have not ended."""
    page = min(limit, MAX_PAGE)
    async with services.database.connection() as connection:
        rows = await list_feedback_tokens(connection, caller.tenant_id, run_id, page, offset)
    return [_shape(services, row) for row in rows]


def _shape(services: Services, row: Any) -> FeedbackToken:
    return FeedbackToken(
        id=row["id"],
        url=f"{services.settings.api_url}/api/v1/feedback/tokens/{row['id']}",
        expires_at=row["expires_at"],
    )
