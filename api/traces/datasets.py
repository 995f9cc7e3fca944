"""Datasets, their versions, tags and splits, and comparisons of experiments (trace contract §5.8)."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
import psycopg
from fastapi import APIRouter, Body, Query
from psycopg.rows import DictRow
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api.authentication import Caller, CurrentCaller
from api.errors import BadRequestError, ConflictError, InvalidError, NotFoundError
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.deletion import delete_objects
from api.traces.example_reader import ExampleDraft
from api.traces.example_writing import check_schema, write_examples
from api.traces.text import JsonObject, Text, is_clean
from storage.database import Connection
from storage.datasets import (
    LATEST,
    DatasetQuery,
    create_comparison,
    create_dataset,
    dataset_versions,
    delete_dataset,
    get_dataset,
    list_datasets,
    put_tag,
    resolve_version,
    update_dataset,
)
from storage.examples import ExampleQuery, dataset_splits, list_examples
from storage.traces.deletion import doom

router = APIRouter(tags=["datasets"])

_MAX_PAGE = 100
Name = Annotated[Text, StringConstraints(min_length=1, max_length=512)]
Tag = Annotated[Text, StringConstraints(min_length=1, max_length=255)]
Limit = Annotated[int, Query(ge=1)]
Offset = Annotated[int, Query(ge=0, lt=2**31)]


class DatasetChanges(BaseModel):
    """What a PATCH may change: fields that are left out stay."""

    model_config = ConfigDict(extra="ignore")

    name: Name | None = None
    description: Annotated[Text, StringConstraints(max_length=10_000)] | None = None
    inputs_schema_definition: JsonObject | None = None
    outputs_schema_definition: JsonObject | None = None
    transformations: Annotated[list[JsonObject], Field(max_length=100)] | None = None
    metadata: JsonObject | None = None


class DatasetCreation(DatasetChanges):
    """A new dataset."""

    id: UUID | None = None
    name: Name
    data_type: Literal["kv", "llm", "chat"] = "kv"
    extra: JsonObject | None = None


@router.post("/datasets")
async def create(
    body: Annotated[DatasetCreation, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """A new dataset; 409 if the name is taken."""
    fields = body.model_dump(exclude_none=True)
    _check_schemas(fields)
    fields.setdefault("metadata", (fields.get("extra") or {}).get("metadata"))
    if not isinstance(fields["metadata"], dict | None):
        raise InvalidError("extra.metadata: expected an object.")
    async with services.database.transaction() as connection:
        row = await create_dataset(connection, caller.tenant_id, fields)
    if row is None:
        raise ConflictError(f"Dataset {body.name!r} already exists.")
    return JsonAnswer(row)


@router.get("/datasets")
async def list_all(
    services: CurrentServices,
    caller: CurrentCaller,
    id: Annotated[list[UUID] | None, Query()] = None,
    name: str | None = None,
    name_contains: str | None = None,
    data_type: Annotated[list[str] | None, Query()] = None,
    metadata: str | None = None,
    limit: Limit = _MAX_PAGE,
    offset: Offset = 0,
) -> JsonAnswer:
    """Newest first; an unknown name gives []."""
    if not all(is_clean(text) for text in (name, name_contains, *(data_type or ())) if text is not None):
        return JsonAnswer([])
    query = DatasetQuery(
        ids=id,
        name=name,
        name_contains=name_contains,
        data_types=data_type,
        metadata=read_json_parameter(metadata, "metadata"),
        limit=min(limit, _MAX_PAGE),
        offset=offset,
    )
    async with services.database.connection() as connection:
        return JsonAnswer(await list_datasets(connection, caller.tenant_id, query))


class Comparison(BaseModel):
    """Experiments of one dataset that are compared."""

    model_config = ConfigDict(extra="ignore")

    id: UUID | None = None
    experiment_ids: Annotated[list[UUID], Field(min_length=1, max_length=100)]
    name: Name
    description: Annotated[Text, StringConstraints(max_length=10_000)] | None = None
    reference_dataset_id: UUID
    extra: JsonObject | None = None


@router.post("/datasets/comparative")
async def compare(
    body: Annotated[Comparison, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """A comparative experiment."""
    async with services.database.transaction() as connection:
        await _dataset(connection, caller, body.reference_dataset_id)
        try:
            row = await create_comparison(connection, caller.tenant_id, body.model_dump())
        except psycopg.errors.UniqueViolation:
            raise ConflictError(f"Comparative experiment {body.id} already exists.") from None
    return JsonAnswer(row)


@router.get("/datasets/{dataset_id}")
async def read(dataset_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    async with services.database.connection() as connection:
        return JsonAnswer(await _dataset(connection, caller, dataset_id))


@router.patch("/datasets/{dataset_id}")
async def update(
    dataset_id: UUID,
    body: Annotated[DatasetChanges, Body()],
    services: CurrentServices,
    caller: CurrentCaller,
) -> JsonAnswer:
    changes = body.model_dump(exclude_unset=True)
    _check_schemas(changes)
    if "name" in changes and changes["name"] is None:
        del changes["name"]
    try:
        async with services.database.transaction() as connection:
            await _dataset(connection, caller, dataset_id)
            row = await update_dataset(connection, caller.tenant_id, dataset_id, changes)
    except psycopg.errors.UniqueViolation:
        raise ConflictError(f"Dataset {body.name!r} already exists.") from None
    return JsonAnswer(row)


@router.delete("/datasets/{dataset_id}")
async def delete(dataset_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """Delete a dataset with its examples and their attachments; its experiments stay."""
    async with services.database.transaction() as connection:
        found, keys = await delete_dataset(connection, caller.tenant_id, dataset_id)
        await doom(connection, keys)
    if not found:
        raise NotFoundError(f"Dataset {dataset_id} not found.")
    await delete_objects(services, keys)
    return JsonAnswer({"message": "Dataset deleted"})


@router.get("/datasets/{dataset_id}/versions")
async def list_versions(
    dataset_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    limit: Limit = _MAX_PAGE,
    offset: Offset = 0,
) -> JsonAnswer:
    """Every moment at which an example changed, newest first."""
    async with services.database.connection() as connection:
        await _dataset(connection, caller, dataset_id)
        page = min(limit, _MAX_PAGE)
        return JsonAnswer(await dataset_versions(connection, caller.tenant_id, dataset_id, page, offset))


@router.get("/datasets/{dataset_id}/version")
async def read_version(
    dataset_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    as_of: datetime | None = None,
    tag: str | None = None,
) -> JsonAnswer:
    """The version that a moment or a tag names."""
    if (as_of is None) == (tag is None):
        raise BadRequestError("Give exactly one of as_of and tag.")
    async with services.database.connection() as connection:
        await _dataset(connection, caller, dataset_id)
        moment = await resolve_version(connection, caller.tenant_id, dataset_id, as_of=_aware(as_of), tag=tag)
        if moment is None:
            raise NotFoundError("The dataset has no such version.")
        versions = await dataset_versions(connection, caller.tenant_id, dataset_id, 100_000, 0)
    return JsonAnswer(next(version for version in versions if version["as_of"] == moment))


class VersionTag(BaseModel):
    as_of: datetime
    tag: Tag


@router.put("/datasets/{dataset_id}/tags")
async def tag_version(
    dataset_id: UUID, body: Annotated[VersionTag, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Give the newest version at or before a moment a tag."""
    if body.tag == LATEST:
        raise BadRequestError('The tag "latest" always belongs to the newest version.')
    async with services.database.transaction() as connection:
        await _dataset(connection, caller, dataset_id)
        moment = await resolve_version(
            connection, caller.tenant_id, dataset_id, as_of=_aware(body.as_of), tag=None
        )
        if moment is None:
            raise NotFoundError("The dataset has no version at that time.")
        await put_tag(connection, dataset_id, body.tag, moment)
    return JsonAnswer({"as_of": moment, "tag": body.tag})


@router.get("/datasets/{dataset_id}/splits")
async def list_splits(
    dataset_id: UUID, services: CurrentServices, caller: CurrentCaller, as_of: str | None = None
) -> JsonAnswer:
    """Names of the splits of a version."""
    async with services.database.connection() as connection:
        await _dataset(connection, caller, dataset_id)
        moment = await resolve_as_of(connection, caller.tenant_id, dataset_id, as_of)
        return JsonAnswer(await dataset_splits(connection, caller.tenant_id, dataset_id, moment))


class SplitChange(BaseModel):
    split_name: Annotated[Text, StringConstraints(min_length=1, max_length=255)]
    examples: Annotated[list[UUID], Field(max_length=10_000)]
    remove: bool = False


@router.put("/datasets/{dataset_id}/splits")
async def change_split(
    dataset_id: UUID, body: Annotated[SplitChange, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Put examples into a split, or take them out of it."""
    async with services.database.connection() as connection:
        await _dataset(connection, caller, dataset_id)
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


async def resolve_as_of(
    connection: Connection, tenant_id: UUID, dataset_id: UUID | None, text: str | None
) -> datetime | None:
    """The moment that `as_of` means: a time, or a tag of the dataset; None for the current version.

    Raises:
        NotFoundError: no such tag.
    """
    if text is None or text == LATEST:
        return None
    try:
        return _aware(datetime.fromisoformat(text))
    except ValueError:
        moment = (
            await resolve_version(connection, tenant_id, dataset_id, as_of=None, tag=text)
            if dataset_id
            else None
        )
    if moment is None:
        raise NotFoundError(f"The dataset has no version {text[:80]!r}.")
    return moment


def read_json_parameter(text: str | None, name: str) -> dict[str, Any] | None:
    """A JSON object in a query parameter.

    Raises:
        BadRequestError: it is something else.
    """
    if text is None:
        return None
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        value = None
    if not isinstance(value, dict) or not is_clean(text):
        raise BadRequestError(f"{name}: expected a JSON object.")
    return value


async def _dataset(connection: Connection, caller: Caller, dataset_id: UUID) -> DictRow:
    row = await get_dataset(connection, caller.tenant_id, dataset_id)
    if row is None:
        raise NotFoundError(f"Dataset {dataset_id} not found.")
    return row


def _check_schemas(fields: dict[str, Any]) -> None:
    for name in ("inputs_schema_definition", "outputs_schema_definition"):
        if fields.get(name) is not None:
            check_schema(fields[name], name)


def _aware(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC)
