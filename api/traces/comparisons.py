"""Comparative experiments: experiments of one dataset, side by side (trace contract §5.8)."""

from typing import Annotated
from uuid import UUID

import psycopg
from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from api.authentication import CurrentCaller
from api.errors import ConflictError, InvalidError, NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.dataset_lookup import require_dataset
from api.traces.parameters import MAX_PAGE, Description, Limit, Name, Offset
from api.traces.text import JsonObject
from storage.comparisons import create_comparison, delete_comparison, list_comparisons
from storage.project_lists import ProjectQuery, list_projects

router = APIRouter(tags=["datasets"], route_class=JsonRoute)


class Comparison(BaseModel):
    """Experiments of one dataset that are compared."""

    model_config = ConfigDict(extra="ignore")

    id: UUID | None = None
    experiment_ids: Annotated[list[UUID], Field(min_length=1, max_length=100)]
    name: Name
    description: Description | None = None
    reference_dataset_id: UUID
    extra: JsonObject | None = None


@router.post("/datasets/comparative")
async def compare(
    body: Annotated[Comparison, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """A comparative experiment; 409 if its id is taken, 422 if an experiment is on another dataset."""
    async with services.database.transaction() as connection:
        await require_dataset(connection, caller.tenant_id, body.reference_dataset_id)
        wanted = set(body.experiment_ids)
        query = ProjectQuery(ids=list(wanted), limit=len(wanted))
        experiments = await list_projects(connection, caller.tenant_id, query)
        missing = wanted - {row["id"] for row in experiments}
        if missing:
            raise NotFoundError(f"Experiment {min(missing)} not found.")
        for row in experiments:
            if row["reference_dataset_id"] != body.reference_dataset_id:
                raise InvalidError(f"Experiment {row['id']} is not on dataset {body.reference_dataset_id}.")
        try:
            row = await create_comparison(connection, caller.tenant_id, body.model_dump())
        except psycopg.errors.UniqueViolation:
            raise ConflictError(f"Comparative experiment {body.id} already exists.") from None
    return JsonAnswer(row)


@router.get("/datasets/{dataset_id}/comparative")
async def list_all(
    dataset_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    limit: Limit = MAX_PAGE,
    offset: Offset = 0,
) -> JsonAnswer:
    """Comparative experiments on a dataset, newest first, each with `experiments_info` and `feedback_stats`."""
    async with services.database.connection() as connection:
        await require_dataset(connection, caller.tenant_id, dataset_id)
        rows = await list_comparisons(connection, caller.tenant_id, dataset_id, min(limit, MAX_PAGE), offset)
    return JsonAnswer(rows)


@router.delete("/datasets/comparative/{comparison_id}")
async def delete(comparison_id: UUID, services: CurrentServices, caller: CurrentCaller) -> JsonAnswer:
    """Delete a comparative experiment; its experiments and their feedback stay."""
    async with services.database.connection() as connection:
        if not await delete_comparison(connection, caller.tenant_id, comparison_id):
            raise NotFoundError(f"Comparative experiment {comparison_id} not found.")
    return JsonAnswer({"message": "Comparative experiment deleted"})
