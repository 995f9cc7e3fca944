"""Results of experiments: the examples of a dataset, each with the runs on it (trace contract §5.8)."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body
from psycopg.rows import DictRow
from pydantic import BaseModel, ConfigDict, Field

from api.authentication import CurrentCaller
from api.errors import NotFoundError, TooLargeError
from api.services import CurrentServices, Services
from api.traces.answers import JsonAnswer
from api.traces.examples import shape_example
from api.traces.reading import bounded_reading
from api.traces.run_query import RunFilters, conditions_of
from api.traces.run_shape import shape_run
from storage.database import Connection
from storage.datasets import get_dataset
from storage.examples import ExampleQuery, list_examples
from storage.project_lists import get_project
from storage.traces.columns import LARGE
from storage.traces.runs import RunQuery, query_runs

router = APIRouter(tags=["datasets"])

_MAX_PAGE = 100
# Pages of runs that one answer holds, each of at most 1,000 runs and 16 MiB of stored documents.
_RUNS_PER_PAGE = 1_000
_MAX_RUN_PAGES = 4
_PREVIEW_CHARACTERS = 300


class ExperimentQuery(BaseModel):
    """What to read. `filters`: by experiment, expressions of the filter language that its runs must match."""

    model_config = ConfigDict(extra="ignore")

    session_ids: Annotated[list[UUID], Field(min_length=1, max_length=20)]
    offset: Annotated[int, Field(ge=0, lt=2**31)] = 0
    limit: Annotated[int, Field(ge=1)] = _MAX_PAGE
    preview: bool = False
    filters: dict[UUID, Annotated[list[str], Field(max_length=20)]] | None = None


@router.post("/datasets/{dataset_id}/runs")
async def read_results(
    dataset_id: UUID,
    body: Annotated[ExperimentQuery, Body()],
    services: CurrentServices,
    caller: CurrentCaller,
) -> JsonAnswer:
    """Current examples of a dataset, newest first, each with `runs`: the root runs of the experiments on it.

    An example without such a run has none. With `preview` runs have `inputs_preview` and `outputs_preview` instead
    of their documents. 413 if one answer cannot hold the runs.
    """
    async with bounded_reading(services) as connection:
        await check_experiments(connection, caller.tenant_id, dataset_id, body.session_ids)
        query = ExampleQuery(dataset_id=dataset_id, limit=min(body.limit, _MAX_PAGE), offset=body.offset)
        examples = await list_examples(connection, caller.tenant_id, query)
        runs: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
        async for row in runs_of_experiments(
            connection, caller.tenant_id, body, [example["id"] for example in examples]
        ):
            runs[row["reference_example_id"]].append(_shape_result(services, row, body.preview))
    return JsonAnswer(
        [{**shape_example(services, example), "runs": runs[example["id"]]} for example in examples]
    )


async def check_experiments(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, session_ids: list[UUID]
) -> None:
    """
    Raises:
        NotFoundError: the workspace does not have the dataset, or one of the projects.
    """
    if await get_dataset(connection, tenant_id, dataset_id) is None:
        raise NotFoundError(f"Dataset {dataset_id} not found.")
    for session_id in session_ids:
        if await get_project(connection, tenant_id, session_id) is None:
            raise NotFoundError(f"Project {session_id} not found.")


async def runs_of_experiments(
    connection: Connection,
    tenant_id: UUID,
    body: ExperimentQuery,
    example_ids: list[UUID],
    documents: Sequence[str] = LARGE,
) -> AsyncIterator[DictRow]:
    """Root runs on the examples, experiment by experiment.

    Raises:
        TooLargeError: they are more than one answer holds.
    """
    pages = 0
    for session_id in dict.fromkeys(body.session_ids):
        query = RunQuery(
            session_ids=[session_id],
            reference_example_ids=example_ids,
            is_root=True,
            conditions=list(conditions_of(RunFilters(filter=_joined((body.filters or {}).get(session_id))))),
            limit=_RUNS_PER_PAGE,
            documents=documents,
        )
        more = bool(example_ids)
        while more:
            if pages == _MAX_RUN_PAGES:
                raise TooLargeError(
                    "The runs on these examples are more than one answer holds; lower `limit`."
                )
            page = await query_runs(connection, tenant_id, query)
            for row in page.rows:
                yield row
            pages, more = pages + 1, page.more
            if more:
                query.after = (page.rows[-1]["start_time"], page.rows[-1]["id"])


def _joined(filters: list[str] | None) -> str | None:
    """Several filters as one that asks for all of them."""
    given = [text for text in filters or [] if text.strip()]
    return f"and({', '.join(given)})" if len(given) > 1 else next(iter(given), None)


def _shape_result(services: Services, row: DictRow, preview: bool) -> dict[str, Any]:
    run = shape_run(services, row)
    if preview:
        for name in ("inputs", "outputs"):
            text = row[name]
            run[f"{name}_preview"] = None if text is None else text[:_PREVIEW_CHARACTERS]
        for name in ("inputs", "outputs", "events", "serialized"):
            del run[name]
    return run
