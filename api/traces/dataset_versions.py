"""Versions of a dataset, their tags, and what lies between two of them (trace contract §5.8)."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body
from pydantic import BaseModel, StringConstraints

from api.authentication import CurrentCaller
from api.errors import BadRequestError, NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.dataset_lookup import require_dataset, resolve_as_of
from api.traces.parameters import MAX_PAGE, Limit, Offset, aware
from api.traces.text import Text
from storage.example_versions import LATEST, compare_versions, dataset_versions, put_tag, resolve_version

router = APIRouter(prefix="/datasets/{dataset_id}", tags=["datasets"], route_class=JsonRoute)

Tag = Annotated[Text, StringConstraints(min_length=1, max_length=255)]


class VersionTag(BaseModel):
    as_of: datetime
    tag: Tag


class VersionDifference(BaseModel):
    """Ids of the examples that were added, removed, or have another content."""

    examples_modified: list[UUID]
    examples_added: list[UUID]
    examples_removed: list[UUID]


@router.get("/versions")
async def list_versions(
    dataset_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    limit: Limit = MAX_PAGE,
    offset: Offset = 0,
) -> JsonAnswer:
    """Every moment at which an example changed, newest first."""
    async with services.database.connection() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        page = min(limit, MAX_PAGE)
        return JsonAnswer(await dataset_versions(connection, caller.tenant_id, dataset_id, page, offset))


@router.get("/versions/diff")
async def diff_versions(
    dataset_id: UUID, from_version: str, to_version: str, services: CurrentServices, caller: CurrentCaller
) -> VersionDifference:
    """What changed from one version to another; each is a time or a tag."""
    async with services.database.connection() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        moments = [
            await resolve_as_of(connection, caller.tenant_id, dataset_id, text)
            for text in (from_version, to_version)
        ]
        found = await compare_versions(connection, caller.tenant_id, dataset_id, *moments)
    return VersionDifference(
        examples_modified=found.modified, examples_added=found.added, examples_removed=found.removed
    )


@router.get("/version")
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
        await require_dataset(connection, caller.tenant_id, dataset_id)
        moment = await resolve_version(connection, caller.tenant_id, dataset_id, as_of=aware(as_of), tag=tag)
        if moment is None:
            raise NotFoundError("The dataset has no such version.")
        versions = await dataset_versions(connection, caller.tenant_id, dataset_id, 100_000, 0)
    return JsonAnswer(next(version for version in versions if version["as_of"] == moment))


@router.put("/tags")
async def tag_version(
    dataset_id: UUID, body: Annotated[VersionTag, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Give the newest version at or before a moment a tag."""
    if body.tag == LATEST:
        raise BadRequestError('The tag "latest" always belongs to the newest version.')
    async with services.database.transaction() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        moment = await resolve_version(
            connection, caller.tenant_id, dataset_id, as_of=aware(body.as_of), tag=None
        )
        if moment is None:
            raise NotFoundError("The dataset has no version at that time.")
        await put_tag(connection, dataset_id, body.tag, moment)
    return JsonAnswer({"as_of": moment, "tag": body.tag})
