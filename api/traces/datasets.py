"""Datasets (trace contract §5.8); their versions, splits, files and links are beside this file."""

from typing import Annotated, Any, Literal
from uuid import UUID

import psycopg
from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field

from api.authentication import CurrentCaller
from api.errors import ConflictError, InvalidError, NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.dataset_lookup import require_dataset
from api.traces.deletion import delete_objects
from api.traces.example_writing import check_schema
from api.traces.parameters import MAX_PAGE, Description, Limit, Name, Offset, read_json_parameter
from api.traces.text import JsonObject, is_clean
from storage.datasets import DatasetQuery, create_dataset, delete_dataset, list_datasets, update_dataset
from storage.traces.deletion import doom

router = APIRouter(tags=["datasets"], route_class=JsonRoute)


class DatasetChanges(BaseModel):
    """What a PATCH may change: fields that are left out stay."""

    model_config = ConfigDict(extra="ignore")

    name: Name | None = None
    description: Description | None = None
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
    limit: Limit = MAX_PAGE,
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
        limit=min(limit, MAX_PAGE),
        offset=offset,
    )
    async with services.database.connection() as connection:
        return JsonAnswer(await list_datasets(connection, caller.tenant_id, query))


@router.get("/datasets/{dataset_id}")
async def read(dataset_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    async with services.database.connection() as connection:
        return JsonAnswer(await require_dataset(connection, caller.tenant_id, dataset_id))


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
            await require_dataset(connection, caller.tenant_id, dataset_id)
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


def _check_schemas(fields: dict[str, Any]) -> None:
    for name in ("inputs_schema_definition", "outputs_schema_definition"):
        if fields.get(name) is not None:
            check_schema(fields[name], name)
