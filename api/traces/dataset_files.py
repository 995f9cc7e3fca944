"""Datasets as files: made of a CSV, written as CSV, JSON lines and OpenAI's fine-tuning format (contract §5.8)."""

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from fastapi import APIRouter, File, Form, UploadFile
from fastapi.responses import StreamingResponse
from psycopg.rows import DictRow

from api.authentication import CurrentCaller
from api.errors import ConflictError, InvalidError
from api.json_body import JsonRoute
from api.services import CurrentServices, Services
from api.traces.answers import JsonAnswer
from api.traces.chat_examples import fine_tuning_messages
from api.traces.dataset_lookup import require_dataset, resolve_as_of
from api.traces.text import is_clean
from storage.datasets import create_dataset, get_dataset
from storage.example_changes import ExampleChange, create_examples, lock_dataset
from storage.examples import ExampleQuery, document_keys, list_examples
from storage.ids import new_id

router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=JsonRoute)

_MAX_EXAMPLES = 10_000
_PAGE = 500
Keys = Annotated[list[str], Form(max_length=200)]


@router.post("/upload")
async def upload(
    file: Annotated[UploadFile, File(description="CSV with a header, in UTF-8.")],
    input_keys: Keys,
    services: CurrentServices,
    caller: CurrentCaller,
    output_keys: Keys | None = None,
    name: Annotated[str | None, Form(max_length=512)] = None,
    description: Annotated[str | None, Form(max_length=10_000)] = None,
    data_type: Annotated[Literal["kv", "llm", "chat"], Form()] = "kv",
    id: Annotated[UUID | None, Form()] = None,
) -> JsonAnswer:
    """A new dataset with an example for each row, values as text; all of it or nothing. 409 if the name is taken."""
    changes = _read_csv(await file.read(), input_keys, output_keys or [])
    named = name or file.filename or ""
    if not 0 < len(named) <= 512 or not is_clean(named) or not is_clean(description or ""):
        raise InvalidError("name: expected 1 to 512 characters without NUL.")
    fields = {"id": id, "name": named, "description": description, "data_type": data_type}
    async with services.database.transaction() as connection:
        dataset = await create_dataset(connection, caller.tenant_id, fields)
        if dataset is None:
            raise ConflictError(f"Dataset {named!r} already exists.")
        locked = await lock_dataset(connection, caller.tenant_id, dataset["id"])
        assert locked is not None
        await create_examples(connection, caller.tenant_id, dataset["id"], locked[1], changes)
        return JsonAnswer(await get_dataset(connection, caller.tenant_id, dataset["id"]))


def _read_csv(data: bytes, input_keys: list[str], output_keys: list[str]) -> list[ExampleChange]:
    try:
        text = data.decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        header = rows.fieldnames or []
        missing = [key for key in (*input_keys, *output_keys) if key not in header]
        if missing or len(set(header)) < len(header):
            raise InvalidError(
                f"The file has no column {missing[0]!r}." if missing else "Two columns have one name."
            )
        changes = [_example(row, input_keys, output_keys) for row in rows]
    except UnicodeDecodeError:
        raise InvalidError("The file is not UTF-8.") from None
    except csv.Error as error:
        raise InvalidError(f"The file is not CSV: {error}.") from None
    if not 0 < len(changes) <= _MAX_EXAMPLES or not is_clean(text):
        raise InvalidError(f"Expected a header and 1 to {_MAX_EXAMPLES} rows, without NUL characters.")
    return changes


def _example(row: dict[str, str], input_keys: list[str], output_keys: list[str]) -> ExampleChange:
    if None in row or None in row.values():
        raise InvalidError("A row of the file has more or fewer columns than its header.")
    outputs = {key: row[key] for key in output_keys} if output_keys else None
    return ExampleChange(new_id(), inputs={key: row[key] for key in input_keys}, outputs=outputs)


@router.get("/{dataset_id}/csv")
async def download_csv(
    dataset_id: UUID, services: CurrentServices, caller: CurrentCaller, as_of: str | None = None
) -> StreamingResponse:
    """Examples of a version as CSV: a column for each key of the inputs, then of the outputs.

    A key of both is `outputs.<key>` among the outputs. What is not text is JSON.
    """
    moment = await _moment(services, caller.tenant_id, dataset_id, as_of)
    async with services.database.connection() as connection:
        inputs, outputs = await document_keys(connection, caller.tenant_id, dataset_id, moment)
    header = [*inputs, *(f"outputs.{key}" if key in inputs else key for key in outputs)]

    async def lines() -> AsyncIterator[bytes]:
        yield _csv_line(header)
        async for row in _examples(services, caller.tenant_id, dataset_id, moment):
            written = [(row["inputs"] or {}).get(key) for key in inputs]
            yield _csv_line([*written, *((row["outputs"] or {}).get(key) for key in outputs)])

    return _download(lines(), "text/csv", f"{dataset_id}.csv")


@router.get("/{dataset_id}/jsonl")
async def download_jsonl(
    dataset_id: UUID, services: CurrentServices, caller: CurrentCaller, as_of: str | None = None
) -> StreamingResponse:
    """Examples of a version, one JSON object a line: `id`, `inputs`, `outputs`, `metadata`."""
    moment = await _moment(services, caller.tenant_id, dataset_id, as_of)

    async def lines() -> AsyncIterator[bytes]:
        async for row in _examples(services, caller.tenant_id, dataset_id, moment):
            yield orjson.dumps({key: row[key] for key in ("id", "inputs", "outputs", "metadata")}) + b"\n"

    return _download(lines(), "application/x-ndjson", f"{dataset_id}.jsonl")


@router.get("/{dataset_id}/openai_ft")
async def download_fine_tuning(
    dataset_id: UUID, services: CurrentServices, caller: CurrentCaller, as_of: str | None = None
) -> StreamingResponse:
    """Chat examples of a version as `{"messages": […]}`, one a line; 422 if the first is no conversation."""
    moment = await _moment(services, caller.tenant_id, dataset_id, as_of)
    examples = _examples(services, caller.tenant_id, dataset_id, moment)
    first = await anext(examples, None)
    if first is None or fine_tuning_messages(first) is None:
        raise InvalidError("The dataset holds no conversations: inputs need a list of messages.")

    async def lines() -> AsyncIterator[bytes]:
        yield orjson.dumps({"messages": fine_tuning_messages(first)}) + b"\n"
        async for row in examples:
            messages = fine_tuning_messages(row)
            if messages is not None:
                yield orjson.dumps({"messages": messages}) + b"\n"

    return _download(lines(), "application/x-ndjson", f"{dataset_id}.jsonl")


async def _moment(services: Services, tenant_id: UUID, dataset_id: UUID, as_of: str | None) -> datetime:
    """A fixed one, so that all pages are of one version."""
    async with services.database.connection() as connection:
        await require_dataset(connection, tenant_id, dataset_id)
        return await resolve_as_of(connection, tenant_id, dataset_id, as_of) or datetime.now(UTC)


async def _examples(
    services: Services, tenant_id: UUID, dataset_id: UUID, as_of: datetime
) -> AsyncIterator[DictRow]:
    query = ExampleQuery(dataset_id=dataset_id, as_of=as_of, limit=_PAGE)
    while True:
        async with services.database.connection() as connection:
            rows = await list_examples(connection, tenant_id, query)
        for row in rows:
            yield row
        if len(rows) < _PAGE:
            return
        query.offset += _PAGE


def _csv_line(values: list[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(
        value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()
        for value in values
    )
    return line.getvalue().encode()


def _download(lines: AsyncIterator[bytes], media_type: str, name: str) -> StreamingResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type=media_type, headers=headers)
