"""Examples of datasets (trace contract §5.8)."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Query, Request
from psycopg.rows import DictRow
from pydantic import BaseModel, Field

from api.authentication import Caller, CurrentCaller
from api.errors import BadRequestError, InvalidError, NotFoundError
from api.services import CurrentServices, Services
from api.traces.answers import JsonAnswer
from api.traces.attachments import attachment_urls
from api.traces.body import decode_body
from api.traces.dataset_lookup import require_dataset, resolve_as_of
from api.traces.deletion import delete_objects
from api.traces.documents import read_json
from api.traces.example_filter import compile_example_filter
from api.traces.example_reader import ExampleDraft, read_example, read_example_parts, read_examples
from api.traces.example_writing import write_examples
from api.traces.multipart import read_boundary
from api.traces.parameters import MAX_PAGE, read_json_parameter
from api.traces.run_reader import read_uuid
from api.traces.text import is_clean
from storage.example_changes import close_examples, erase_examples, lock_dataset
from storage.examples import ExampleQuery, count_examples, list_examples
from storage.traces.deletion import doom

router = APIRouter(tags=["datasets"])
# Under /v1/platform and /api/v1/platform.
platform_router = APIRouter(tags=["datasets"])

Ids = Annotated[list[UUID], Field(min_length=1, max_length=1_000)]


@platform_router.post("/datasets/{dataset_id}/examples", status_code=201)
async def upload(
    dataset_id: UUID, request: Request, services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """New examples as multipart parts."""
    drafts = await _parts(request, services)
    at = await write_examples(services, caller.tenant_id, dataset_id, drafts, create=True)
    return _receipt(drafts, at, 201)


@platform_router.patch("/datasets/{dataset_id}/examples", status_code=201)
async def upload_updates(
    dataset_id: UUID, request: Request, services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """New versions of examples as multipart parts; 409 if one belongs to another dataset."""
    drafts = await _parts(request, services)
    at = await write_examples(services, caller.tenant_id, dataset_id, drafts, create=False)
    return _receipt(drafts, at, 201)


@platform_router.post("/examples/multipart", status_code=201)
async def upsert(request: Request, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """The same for clients that name the dataset in each example's part."""
    drafts = await _parts(request, services)
    at = await _write_by_dataset(services, caller, drafts, create=True)
    return _receipt(drafts, at, 201)


class ExamplesDeletion(BaseModel):
    example_ids: Ids
    hard_delete: bool = False


@platform_router.post("/datasets/examples/delete")
async def delete_for_good(
    body: Annotated[ExamplesDeletion, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Delete examples, with `hard_delete` from every version."""
    if not body.hard_delete:
        return JsonAnswer({"count": await _close(services, caller, body.example_ids)})
    async with services.database.transaction() as connection:
        count, keys = await erase_examples(connection, caller.tenant_id, body.example_ids)
        await doom(connection, keys)
    await delete_objects(services, keys)
    return JsonAnswer({"count": count, "example_ids": body.example_ids})


@platform_router.delete("/datasets/{dataset_id}/examples/{example_id}", status_code=204)
async def delete_from_dataset(
    dataset_id: UUID, example_id: UUID, services: CurrentServices, caller: CurrentCaller
) -> None:
    """Delete an example; earlier versions of its dataset still have it. Again changes nothing."""
    async with services.database.connection() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        query = ExampleQuery(ids=[example_id], dataset_id=dataset_id, limit=1)
        found = await list_examples(connection, caller.tenant_id, query)
    if found:
        await _close(services, caller, [example_id])


@router.post("/examples")
async def create(request: Request, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """One new example."""
    draft = read_example(await _json(request))
    await _write_by_dataset(services, caller, [draft], create=True)
    return JsonAnswer((await _shaped(services, caller, [draft]))[0])


@router.post("/examples/bulk")
async def create_many(request: Request, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """New examples of one dataset."""
    drafts = read_examples(await _json(request))
    await _write_by_dataset(services, caller, drafts, create=True)
    return JsonAnswer(await _shaped(services, caller, drafts))


@router.patch("/examples/bulk")
async def update_many(request: Request, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """New versions of examples of one dataset."""
    drafts = read_examples(await _json(request))
    await _write_by_dataset(services, caller, drafts, create=False)
    return JsonAnswer({"message": f"{len(drafts)} examples updated", "count": len(drafts)})


@router.patch("/examples/{example_id}")
async def update(
    example_id: UUID, request: Request, services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """A new version of an example."""
    draft = read_example(await _json(request), example_id)
    await _write_by_dataset(services, caller, [draft], create=False)
    return JsonAnswer({"message": "Example updated", "count": 1})


@router.get("/examples")
async def list_all(
    services: CurrentServices,
    caller: CurrentCaller,
    dataset: UUID | None = None,
    id: Annotated[list[UUID] | None, Query()] = None,
    as_of: str | None = None,
    splits: Annotated[list[str] | None, Query()] = None,
    metadata: str | None = None,
    filter: str | None = None,
    limit: Annotated[int, Query(ge=1)] = MAX_PAGE,
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> JsonAnswer:
    """Examples, newest first, of the current version or of another."""
    if dataset is None and id is None:
        raise BadRequestError("Give a dataset or ids.")
    if splits is not None and not all(is_clean(name) for name in splits):
        return JsonAnswer([])
    query = ExampleQuery(
        dataset_id=dataset,
        ids=id,
        splits=splits,
        metadata=read_json_parameter(metadata, "metadata"),
        condition=compile_example_filter(filter),
        limit=min(limit, MAX_PAGE),
        offset=offset,
    )
    async with services.database.connection() as connection:
        query.as_of = await resolve_as_of(connection, caller.tenant_id, dataset, as_of)
        rows = await list_examples(connection, caller.tenant_id, query)
    return JsonAnswer([shape_example(services, row) for row in rows])


@router.get("/examples/count")
async def count(dataset: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    async with services.database.connection() as connection:
        return JsonAnswer(await count_examples(connection, caller.tenant_id, dataset))


@router.get("/examples/{example_id}")
async def read(
    example_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    as_of: str | None = None,
    dataset: UUID | None = None,
) -> JsonAnswer:
    async with services.database.connection() as connection:
        query = ExampleQuery(ids=[example_id], limit=1)
        query.as_of = await resolve_as_of(connection, caller.tenant_id, dataset, as_of)
        rows = await list_examples(connection, caller.tenant_id, query)
    if not rows:
        raise NotFoundError(f"Example {example_id} not found.")
    return JsonAnswer(shape_example(services, rows[0]))


@router.delete("/examples/{example_id}")
async def delete(example_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """Delete an example; earlier versions of its dataset still have it."""
    if not await _close(services, caller, [example_id]):
        raise NotFoundError(f"Example {example_id} not found.")
    return JsonAnswer({"message": "Example deleted"})


@router.delete("/examples")
async def delete_many(
    services: CurrentServices,
    caller: CurrentCaller,
    example_ids: Annotated[list[UUID], Query(max_length=1_000)],
) -> JsonAnswer:
    """The same for several."""
    return JsonAnswer({"count": await _close(services, caller, example_ids)})


async def _close(services: Services, caller: Caller, example_ids: list[UUID]) -> int:
    async with services.database.transaction() as connection:
        rows = await list_examples(
            connection, caller.tenant_id, ExampleQuery(ids=example_ids, limit=len(example_ids))
        )
        count = 0
        for dataset_id in sorted({row["dataset_id"] for row in rows}):
            locked = await lock_dataset(connection, caller.tenant_id, dataset_id)
            if locked:
                ids = [row["id"] for row in rows if row["dataset_id"] == dataset_id]
                count += await close_examples(connection, caller.tenant_id, ids, locked[1])
    return count


async def _write_by_dataset(
    services: Services, caller: Caller, drafts: list[ExampleDraft], *, create: bool
) -> datetime:
    """For bodies that name the dataset themselves, or leave it to the existing examples."""
    given = {
        read_uuid(draft.body["dataset_id"], "dataset_id") for draft in drafts if draft.body.get("dataset_id")
    }
    if not given and not create:
        async with services.database.connection() as connection:
            ids = [draft.change.example_id for draft in drafts]
            rows = await list_examples(connection, caller.tenant_id, ExampleQuery(ids=ids, limit=len(ids)))
        if len({row["id"] for row in rows}) < len(set(ids)):
            raise NotFoundError("One of the examples does not exist.")
        given = {row["dataset_id"] for row in rows}
    if len(given) != 1:
        raise InvalidError("dataset_id: all examples of a request belong to one dataset; name it.")
    return await write_examples(services, caller.tenant_id, given.pop(), drafts, create=create)


async def _parts(request: Request, services: Services) -> list[ExampleDraft]:
    boundary = read_boundary(request.headers.get("content-type", ""))
    body = decode_body(
        await request.body(),
        request.headers.get("content-encoding", ""),
        services.settings.max_trace_body_bytes,
    )
    return read_example_parts(body, boundary)


async def _json(request: Request) -> Any:
    value, _ = read_json(await request.body(), "The body")
    return value


async def _shaped(services: Services, caller: Caller, drafts: list[ExampleDraft]) -> list[dict[str, Any]]:
    ids = [draft.change.example_id for draft in drafts]
    async with services.database.connection() as connection:
        rows = await list_examples(connection, caller.tenant_id, ExampleQuery(ids=ids, limit=len(ids)))
    found = {row["id"]: row for row in rows}
    return [shape_example(services, found[example_id]) for example_id in ids if example_id in found]


def _receipt(drafts: list[ExampleDraft], at: datetime, status: int) -> JsonAnswer:
    ids = [draft.change.example_id for draft in drafts]
    return JsonAnswer({"count": len(ids), "example_ids": ids, "as_of": at}, status)


def shape_example(services: Services, row: DictRow) -> dict[str, Any]:
    """A row of `storage.examples` as Example."""
    shaped = {name: value for name, value in row.items() if name != "attachments"}
    return shaped | {"attachment_urls": attachment_urls(services, row["attachments"])}
