"""Splits: named parts of a dataset (trace contract §5.8)."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body
from psycopg.rows import DictRow
from pydantic import BaseModel, Field, StringConstraints

from api.authentication import CurrentCaller
from api.errors import NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.dataset_lookup import require_dataset, resolve_as_of
from api.traces.example_reader import ExampleDraft
from api.traces.example_writing import write_examples
from api.traces.text import Text
from storage.examples import ExampleQuery, dataset_splits, list_examples

router = APIRouter(prefix="/datasets/{dataset_id}/splits", tags=["datasets"], route_class=JsonRoute)


class SplitChange(BaseModel):
    split_name: Annotated[Text, StringConstraints(min_length=1, max_length=255)]
    examples: Annotated[list[UUID], Field(max_length=10_000)]
    remove: bool = False


@router.get("")
async def list_splits(
    dataset_id: UUID, services: CurrentServices, caller: CurrentCaller, as_of: str | None = None
) -> JsonAnswer:
    """Names of the splits of a version."""
    async with services.database.connection() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        moment = await resolve_as_of(connection, caller.tenant_id, dataset_id, as_of)
        return JsonAnswer(await dataset_splits(connection, caller.tenant_id, dataset_id, moment))


@router.put("")
async def change_split(
    dataset_id: UUID, body: Annotated[SplitChange, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Put examples into a split, or take them out of it."""
    async with services.database.connection() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        query = ExampleQuery(dataset_id=dataset_id, ids=body.examples, limit=len(body.examples))
        rows = await list_examples(connection, caller.tenant_id, query) if body.examples else []
    missing = set(body.examples) - {row["id"] for row in rows}
    if missing:
        raise NotFoundError(f"Example {min(missing)} not found in the dataset.")
    drafts = [_with_split(row, body) for row in rows]
    if drafts:
        await write_examples(services, caller.tenant_id, dataset_id, drafts, create=False)
    return JsonAnswer([draft.change.splits for draft in drafts])


def _with_split(row: DictRow, body: SplitChange) -> ExampleDraft:
    draft = ExampleDraft(row["id"])
    splits = [name for name in row["metadata"].get("dataset_split", []) if name != body.split_name]
    draft.change.splits = splits if body.remove else [*splits, body.split_name]
    return draft
