"""Statistics over runs, whole or by group (trace contract §5.5)."""

from collections import defaultdict
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api.authentication import CurrentCaller
from api.errors import InvalidError
from api.json_body import JsonRoute
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.reading import bounded_reading
from api.traces.run_facets import read_facets
from api.traces.run_query import RunFilters, filters_to_query
from api.traces.run_shape import shape_stats
from api.traces.text import Text
from storage.database import Connection
from storage.traces.feedback_stats import feedback_stats
from storage.traces.runs import RunQuery
from storage.traces.stats import Grouping, feedback_records, grouped_stats, run_stats

router = APIRouter(tags=["traces"], route_class=JsonRoute)


class GroupBy(BaseModel):
    """By what runs are grouped; `path` says which key of metadata. The largest `max_groups` groups are answered."""

    model_config = ConfigDict(extra="ignore")

    attribute: Literal["name", "run_type", "status", "tag", "metadata"]
    path: Annotated[Text, StringConstraints(min_length=1, max_length=500)] | None = None
    max_groups: Annotated[int, Field(ge=1, le=100)] = 5

    def grouping(self) -> Grouping:
        """The same in the words of the repository.

        Raises:
            InvalidError: metadata without a path, or another attribute with one.
        """
        if (self.attribute == "metadata") != (self.path is not None):
            raise InvalidError(
                'group_by: "metadata" needs a path, the key to group by; the others have none.'
            )
        return Grouping(self.attribute, self.path or "", self.max_groups)


class RunStatsBody(RunFilters):
    """Conditions of `/runs/stats`, which needs at least one project."""

    session: Annotated[list[UUID], Field(min_length=1, max_length=1_000)]
    group_by: GroupBy | None = None
    select: list[str] | None = None


@router.post("/runs/stats")
async def stats(
    body: Annotated[RunStatsBody, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Counts, latencies, tokens, costs and feedback over the runs that match.

    With `group_by` an object of them, by group. `run_facets` only if `select` names them: they are many more rows.
    """
    wanted = filters_to_query(body)
    grouping = body.group_by.grouping() if body.group_by else None
    with_feedback = body.select is None or "feedback_stats" in body.select
    async with bounded_reading(services) as connection:
        if grouping:
            return JsonAnswer(await _by_group(connection, caller.tenant_id, wanted, grouping, with_feedback))
        row = shape_stats(await run_stats(connection, caller.tenant_id, wanted))
        if with_feedback:
            row["feedback_stats"] = feedback_stats(
                await feedback_records(connection, caller.tenant_id, wanted)
            )
        asked = body.select is not None and "run_facets" in body.select
        row["run_facets"] = await read_facets(connection, caller.tenant_id, wanted) if asked else []
    return JsonAnswer(row)


async def _by_group(
    connection: Connection, tenant_id: UUID, wanted: RunQuery, grouping: Grouping, with_feedback: bool
) -> dict[str, dict[str, Any]]:
    groups = {
        name: {**shape_stats(row), "run_facets": []}
        for name, row in (await grouped_stats(connection, tenant_id, wanted, grouping)).items()
    }
    if with_feedback:
        records: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for record in await feedback_records(connection, tenant_id, wanted, grouping):
            records[record["group"]].append(record)
        for name, row in groups.items():
            row["feedback_stats"] = feedback_stats(records[name])
    return groups
