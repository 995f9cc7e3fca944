"""Feedback on runs and projects, and configurations of feedback keys (trace contract §5.7)."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Body, Query, Request
from psycopg.rows import DictRow
from pydantic import BaseModel, ConfigDict, StringConstraints

from api.authentication import CurrentCaller, TracingCaller
from api.errors import ConflictError, InvalidError, NotFoundError
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.documents import dump_json_text
from api.traces.feedback_reader import MAX_KEY, read_feedback, read_opinion
from api.traces.submission import Submission, read_object
from api.traces.text import JsonObject, Text, is_clean
from api.traces.writing import store
from storage.feedback import FeedbackQuery, delete_feedback, get_feedback, list_feedback, update_feedback
from storage.feedback_configs import delete_config, list_configs, put_config

router = APIRouter(tags=["traces"])

_MAX_PAGE = 100
Key = Annotated[Text, StringConstraints(min_length=1, max_length=MAX_KEY)]
Limit = Annotated[int, Query(ge=1)]
Offset = Annotated[int, Query(ge=0, lt=2**31)]


@router.post("/feedback")
async def create(request: Request, services: CurrentServices, caller: TracingCaller) -> JsonAnswer:
    """Feedback about a run, or, without `run_id`, about a project. The same id again replaces it."""
    body = read_object(await request.body())
    record = read_feedback(body)
    if record.run_id is None and record.session_id is None:
        raise InvalidError("Feedback needs a run_id or a session_id.")
    config = body.get("feedback_config")
    if config is not None and not isinstance(config, dict):
        raise InvalidError("feedback_config: expected an object.")
    dump_json_text(config, "feedback_config")
    await store(services, caller, Submission(feedback=[record]))
    async with services.database.connection() as connection:
        if config is not None:
            await put_config(connection, caller.tenant_id, record.key, config, replace=False)
        row = await get_feedback(connection, caller.tenant_id, record.feedback_id)
    if row is None:
        raise NotFoundError(f"Feedback {record.feedback_id} was deleted meanwhile.")
    return JsonAnswer(_shape(row))


@router.get("/feedback")
async def list_records(
    services: CurrentServices,
    caller: CurrentCaller,
    run: Annotated[list[UUID] | None, Query()] = None,
    session: Annotated[list[UUID] | None, Query()] = None,
    key: Annotated[list[str] | None, Query()] = None,
    source: Annotated[list[str] | None, Query()] = None,
    level: Literal["run", "session"] | None = None,
    has_score: bool | None = None,
    has_comment: bool | None = None,
    min_created_at: datetime | None = None,
    max_created_at: datetime | None = None,
    limit: Limit = _MAX_PAGE,
    offset: Offset = 0,
) -> JsonAnswer:
    """Newest first."""
    if not all(is_clean(text) for text in (*(key or ()), *(source or ()))):
        return JsonAnswer([])
    query = FeedbackQuery(
        run_ids=run,
        session_ids=session,
        keys=key,
        sources=source,
        level=level,
        has_score=has_score,
        has_comment=has_comment,
        min_created_at=min_created_at,
        max_created_at=max_created_at,
        limit=min(limit, _MAX_PAGE),
        offset=offset,
    )
    async with services.database.connection() as connection:
        rows = await list_feedback(connection, caller.tenant_id, query)
    return JsonAnswer([_shape(row) for row in rows])


@router.get("/feedback/{feedback_id}")
async def read(feedback_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    async with services.database.connection() as connection:
        row = await get_feedback(connection, caller.tenant_id, feedback_id)
    if row is None:
        raise NotFoundError(f"Feedback {feedback_id} not found.")
    return JsonAnswer(_shape(row))


@router.patch("/feedback/{feedback_id}")
async def update(
    feedback_id: UUID, request: Request, services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Change score, value, comment or correction; nulls change nothing."""
    changes = read_opinion(read_object(await request.body()))
    async with services.database.transaction() as connection:
        row = await update_feedback(connection, caller.tenant_id, feedback_id, changes)
    if row is None:
        raise NotFoundError(f"Feedback {feedback_id} not found.")
    return JsonAnswer(_shape(row))


@router.delete("/feedback/{feedback_id}", status_code=200)
async def delete(feedback_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    async with services.database.transaction() as connection:
        if not await delete_feedback(connection, caller.tenant_id, feedback_id):
            raise NotFoundError(f"Feedback {feedback_id} not found.")
    return JsonAnswer({})


class FeedbackConfig(BaseModel):
    """Type, range and categories of a feedback key."""

    model_config = ConfigDict(extra="allow")

    feedback_key: Key
    feedback_config: JsonObject


@router.post("/feedback-configs")
async def create_config(
    body: Annotated[FeedbackConfig, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Set a key's configuration; 409 if it already has another."""
    async with services.database.connection() as connection:
        row = await put_config(
            connection, caller.tenant_id, body.feedback_key, body.feedback_config, replace=False
        )
    if row["feedback_config"] != body.feedback_config:
        raise ConflictError(f"Feedback key {body.feedback_key!r} already has another configuration.")
    return JsonAnswer(row)


@router.patch("/feedback-configs")
async def update_config(
    body: Annotated[FeedbackConfig, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Replace a key's configuration."""
    async with services.database.connection() as connection:
        if not await list_configs(connection, caller.tenant_id, [body.feedback_key]):
            raise NotFoundError(f"Feedback key {body.feedback_key!r} has no configuration.")
        row = await put_config(
            connection, caller.tenant_id, body.feedback_key, body.feedback_config, replace=True
        )
    return JsonAnswer(row)


@router.get("/feedback-configs")
async def read_configs(
    services: CurrentServices,
    caller: CurrentCaller,
    key: Annotated[list[str] | None, Query()] = None,
    limit: Limit = _MAX_PAGE,
    offset: Offset = 0,
) -> JsonAnswer:
    if key and not all(is_clean(text) for text in key):
        return JsonAnswer([])
    async with services.database.connection() as connection:
        return JsonAnswer(
            await list_configs(connection, caller.tenant_id, key, min(limit, _MAX_PAGE), offset)
        )


@router.delete("/feedback-configs", status_code=204)
async def remove_config(feedback_key: str, services: CurrentServices, caller: CurrentCaller) -> None:
    async with services.database.connection() as connection:
        if not is_clean(feedback_key) or not await delete_config(connection, caller.tenant_id, feedback_key):
            raise NotFoundError(f"Feedback key {feedback_key!r} has no configuration.")


def _shape(row: DictRow) -> dict[str, Any]:
    """A row of `storage.feedback` as FeedbackSchema."""
    return {name: value for name, value in row.items() if name not in ("is_error", "tenant_id")} | {
        "error": row["is_error"]
    }
