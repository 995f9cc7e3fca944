"""The dataset, and the version of it, that a request names."""

from datetime import datetime
from uuid import UUID

from psycopg.rows import DictRow

from api.errors import NotFoundError
from api.traces.parameters import aware
from storage.database import Connection
from storage.datasets import get_dataset
from storage.example_versions import LATEST, resolve_version


async def require_dataset(connection: Connection, tenant_id: UUID, dataset_id: UUID) -> DictRow:
    """A dataset of the workspace.

    Raises:
        NotFoundError: it has no such dataset.
    """
    row = await get_dataset(connection, tenant_id, dataset_id)
    if row is None:
        raise NotFoundError(f"Dataset {dataset_id} not found.")
    return row


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
        return aware(datetime.fromisoformat(text))
    except ValueError:
        moment = (
            await resolve_version(connection, tenant_id, dataset_id, as_of=None, tag=text)
            if dataset_id
            else None
        )
    if moment is None:
        raise NotFoundError(f"The dataset has no version {text[:80]!r}.")
    return moment
