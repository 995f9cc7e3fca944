"""Creates and updates examples: source runs copied, schemas checked, attachments sent, one version committed."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import jsonschema
import orjson
from psycopg.rows import DictRow
from referencing import Registry
from referencing.exceptions import Unresolvable

from api.errors import ApiError, ConflictError, InvalidError, NotFoundError, UnavailableError
from api.services import Services
from api.traces.attachments import abandon, upload
from api.traces.example_reader import ExampleDraft
from storage.database import Connection
from storage.example_changes import (
    ExampleChange,
    ExampleConflictError,
    create_examples,
    current_examples,
    lock_dataset,
    merged,
    update_examples,
)
from storage.traces.changes import Attachment
from storage.traces.runs import get_run
from storage.traces.uploads import UploadExpiredError, claim_uploads

_SCHEMAS = (("inputs", "inputs_schema_definition"), ("outputs", "outputs_schema_definition"))


async def write_examples(
    services: Services, tenant_id: UUID, dataset_id: UUID, drafts: list[ExampleDraft], *, create: bool
) -> datetime:
    """Store examples as the dataset's next version, whose moment is returned: all of them or none.

    Raises:
        NotFoundError: no such dataset, or no such source run.
        ConflictError: an example belongs to another dataset, or does not exist and is not to be created.
        InvalidError: an example does not fit the dataset's schema.
    """
    for draft in drafts:
        await _copy_source_run(services, tenant_id, draft)
    changes = [draft.change for draft in drafts]
    files = [(change.example_id, file) for change in changes for file in change.attachments]
    keys = await upload(services, tenant_id, files)
    try:
        async with services.database.transaction() as connection:
            locked = await lock_dataset(connection, tenant_id, dataset_id)
            if locked is None:
                raise NotFoundError(f"Dataset {dataset_id} not found.")
            dataset, at = locked
            await _check_schemas(connection, tenant_id, dataset, changes, at)
            write: Callable[..., Any] = create_examples if create else update_examples
            await write(connection, tenant_id, dataset_id, at, changes)
            await claim_uploads(connection, keys)
    except (ApiError, ExampleConflictError, UploadExpiredError) as error:
        await abandon(services, keys)
        if isinstance(error, ExampleConflictError):
            raise ConflictError(str(error)) from None
        if isinstance(error, UploadExpiredError):
            raise UnavailableError(f"{error} Try again.") from None
        raise
    return at


async def _copy_source_run(services: Services, tenant_id: UUID, draft: ExampleDraft) -> None:
    """`use_source_run_io` and `use_source_run_attachments`: take over what the run had."""
    change, body = draft.change, draft.body
    wanted = body.get("use_source_run_attachments") or []
    if change.source_run_id is None or not (body.get("use_source_run_io") or wanted):
        return
    async with services.database.connection() as connection:
        run = await get_run(connection, tenant_id, change.source_run_id)
    if run is None:
        raise NotFoundError(f"Source run {change.source_run_id} not found.")
    if body.get("use_source_run_io"):
        change.inputs = change.inputs or _object(run["inputs"])
        change.outputs = change.outputs or _object(run["outputs"])
    for name in wanted if isinstance(wanted, list) else []:
        file = (run["attachments"] or {}).get(name)
        if file is None:
            raise NotFoundError(f"Source run {change.source_run_id} has no attachment {name!r}.")
        data = b"".join([chunk async for chunk in services.objects.read(file["key"])])
        change.attachments.append(Attachment(name, file["mime_type"], data))


def _object(text: str | None) -> Any:
    value = orjson.loads(text) if text else None
    return value if value is None or isinstance(value, dict) else {"output": value}


async def _check_schemas(
    connection: Connection, tenant_id: UUID, dataset: DictRow, changes: list[ExampleChange], at: datetime
) -> None:
    schemas = [(name, dataset[column]) for name, column in _SCHEMAS if dataset[column]]
    if not schemas:
        return
    current = await current_examples(connection, tenant_id, [change.example_id for change in changes])
    for change in changes:
        example = merged(change, current.get(change.example_id), at)
        for name, schema in schemas:
            value = example[name].obj if example[name] is not None else None
            if value is not None:
                check_document(value, schema, f"{name} of example {change.example_id}")


def check_document(value: Any, schema: dict[str, Any], what: str) -> None:
    """Whether a document fits a JSON schema; references outside of the schema are never followed.

    Raises:
        InvalidError: it does not; says where.
    """
    validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(
        schema, registry=Registry()
    )
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except (Unresolvable, jsonschema.exceptions.UnknownType, re.error, RecursionError) as problem:
        raise InvalidError(f"The dataset's schema cannot be used: {problem}") from None
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path) or "the document"
        raise InvalidError(f"{what} does not fit the dataset's schema at {place}: {error.message[:500]}")


def check_schema(schema: dict[str, Any], what: str) -> None:
    """Whether a JSON schema is one.

    Raises:
        InvalidError: it is not.
    """
    try:
        jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator).check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InvalidError(f"{what} is not a JSON schema: {error.message[:500]}") from None
