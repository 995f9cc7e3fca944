"""Examples of a dataset with the runs of experiments on them (trace contract §5.5, §5.8)."""

from collections import defaultdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.authentication import CurrentCaller
from api.services import CurrentServices
from api.traces.examples import shape_example
from api.traces.experiments import ExperimentQuery, check_experiments, runs_of_experiments
from api.traces.reading import bounded_reading
from api.traces.v2.conditions import Ids, Selects, page_answer, read_cursor, write_cursor
from api.traces.v2.problems import PROBLEMS, NotOfferedError, ProblemRoute
from api.traces.v2.run_fields import documents_of, read_selects, shape_runs
from storage.examples import ExampleQuery, list_examples

router = APIRouter(prefix="/datasets", tags=["traces v2"], route_class=ProblemRoute, responses=PROBLEMS)


class ExperimentRunsQuery(BaseModel):
    """Experiments, and the page of examples. `filters`: by experiment, what its runs must match."""

    model_config = ConfigDict(extra="ignore")

    experiment_ids: Annotated[list[UUID], Field(min_length=1, max_length=20)]
    example_ids: Ids | None = None
    filters: dict[UUID, Annotated[list[str], Field(max_length=20)]] | None = None
    selects: Selects | None = None
    sort: dict[str, Any] | None = None
    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=100)] = 20


@router.post("/{dataset_id}/experiment-runs", summary="Query runs of experiments by example")
async def query(
    request: Request,
    dataset_id: UUID,
    body: Annotated[ExperimentRunsQuery, Body()],
    services: CurrentServices,
    caller: CurrentCaller,
) -> Response:
    """Current examples of a dataset, newest first, each with `runs`: the root runs of the experiments on it."""
    if body.sort:
        raise NotOfferedError("sort is not offered here; examples come newest first.")
    asked = read_selects(body.selects)
    place = read_cursor(body.cursor, int)
    offset = place[0] if place else 0
    runs: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
    experiments = ExperimentQuery(session_ids=body.experiment_ids, filters=body.filters)
    async with bounded_reading(services) as connection:
        await check_experiments(connection, caller.tenant_id, dataset_id, body.experiment_ids)
        wanted = ExampleQuery(
            dataset_id=dataset_id, ids=body.example_ids, limit=body.page_size, offset=offset
        )
        examples = await list_examples(connection, caller.tenant_id, wanted)
        ids = [example["id"] for example in examples]
        rows = [
            row
            async for row in runs_of_experiments(
                connection, caller.tenant_id, experiments, ids, documents_of(asked)
            )
        ]
        shaped = await shape_runs(services, connection, caller.tenant_id, rows, asked)
    for row, run in zip(rows, shaped, strict=True):
        runs[row["reference_example_id"]].append(run)
    items = [{**shape_example(services, example), "runs": runs[example["id"]]} for example in examples]
    full = len(examples) == body.page_size
    return page_answer(request, items, write_cursor(offset + len(examples)) if full else None)
