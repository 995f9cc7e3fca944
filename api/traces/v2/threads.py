"""Threads: conversations over several traces, their traces and their statistics (trace contract §5.5)."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Path, Query, Request, Response
from psycopg.rows import DictRow
from pydantic import Field

from api.authentication import CurrentCaller
from api.errors import InvalidError
from api.services import CurrentServices
from api.traces.answers import JsonAnswer
from api.traces.reading import bounded_reading
from api.traces.run_query import RunFilters, conditions_of
from api.traces.thread_shape import shape_threads
from api.traces.v2.conditions import Window, page_answer, read_cursor, require_projects, write_cursor
from api.traces.v2.problems import PROBLEMS, NotOfferedError, ProblemRoute
from api.traces.v2.run_fields import SELECTABLE, documents_of, shape_runs
from storage.traces.feedback_stats import feedback_stats
from storage.traces.runs import RunQuery, query_runs
from storage.traces.stats import feedback_records, run_stats
from storage.traces.threads import ThreadQuery, bounds_of, count_threads, list_threads, turn_numbers

router = APIRouter(prefix="/threads", tags=["traces v2"], route_class=ProblemRoute, responses=PROBLEMS)

ThreadId = Annotated[str, Path(max_length=500)]
Selected = Annotated[list[str] | None, Query(max_length=100)]
PageSize = Annotated[int, Query(ge=1, le=100)]


class ThreadsQuery(Window):
    """Threads with activity in a window, of which at least one trace meets every filter."""

    project_id: UUID
    filter: str | None = None
    trace_filter: str | None = None
    tree_filter: str | None = None
    thread_filter: str | None = None
    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=100)] = 20

    def conditions(self) -> list[tuple[str, dict[str, Any]]]:
        """SQL over root runs.

        Raises:
            BadRequestError: a filter cannot be read.
            NotOfferedError: what this installation does not have.
        """
        self.refuse_what_is_not_offered()
        if self.thread_filter:
            raise NotOfferedError(
                "thread_filter is not offered here; use filter, trace_filter or tree_filter."
            )
        return _conditions(self.filter, self.trace_filter, self.tree_filter)


def _conditions(
    filter: str | None, trace_filter: str | None, tree_filter: str | None
) -> list[tuple[str, dict[str, Any]]]:
    # Of a root run, `trace_filter` says the same as `filter`; under another name, so that their values do not meet.
    return list(conditions_of(RunFilters(filter=filter, search_filter=trace_filter, tree_filter=tree_filter)))


@router.post("/query", summary="Query threads")
async def query(
    request: Request,
    body: Annotated[ThreadsQuery, Body()],
    services: CurrentServices,
    caller: CurrentCaller,
) -> Response:
    """Threads of a project, latest activity first, each summed up over its traces in the window."""
    after = read_cursor(body.cursor, datetime, str)
    start, before = body.bounds()
    wanted = ThreadQuery(body.project_id, start, before, body.conditions(), limit=body.page_size)
    wanted.after = (after[0], after[1]) if after else None
    async with bounded_reading(services) as connection:
        await require_projects(connection, caller.tenant_id, [body.project_id])
        rows = await list_threads(connection, caller.tenant_id, wanted)
        items = await shape_threads(connection, caller.tenant_id, body.project_id, rows)
    last = rows[-1] if len(rows) == body.page_size else None
    place = write_cursor(last["max_start_time"], last["thread_id"]) if last else None
    return page_answer(request, items, place)


# Names that traces of a thread have and runs have not.
_RENAMED = {"LATENCY": "LATENCY_SECONDS"}


@router.get("/{thread_id}/traces", summary="Traces of a thread")
async def list_traces(
    request: Request,
    thread_id: ThreadId,
    project_id: UUID,
    services: CurrentServices,
    caller: CurrentCaller,
    cursor: str | None = None,
    page_size: PageSize = 20,
    filter: str | None = None,
    trace_filter: str | None = None,
    tree_filter: str | None = None,
    selects: Selected = None,
) -> Response:
    """Traces of one thread, first turn first, with the fields that `selects` names and always `trace_id`."""
    asked = list(dict.fromkeys(selects or ()))
    fields = [_RENAMED.get(name, name) for name in asked if name not in ("TURN_NUMBER", "OP")]
    unknown = [name for name in fields if name not in SELECTABLE]
    if unknown:
        raise InvalidError(f"selects: {unknown[0][:80]!r} is not a field of a thread's trace.")
    after = read_cursor(cursor, datetime, UUID)
    wanted = _turns(project_id, thread_id)
    wanted.conditions += _conditions(filter, trace_filter, tree_filter)
    wanted.after = (after[0], after[1]) if after else None
    wanted.limit, wanted.documents = page_size, documents_of(fields)
    async with bounded_reading(services) as connection:
        await require_projects(connection, caller.tenant_id, [project_id])
        page = await query_runs(connection, caller.tenant_id, wanted)
        shaped = await shape_runs(
            services, connection, caller.tenant_id, page.rows, [*fields, "TRACE_ID"], of_subtree=True
        )
        numbers = {}
        if "TURN_NUMBER" in asked:
            numbers = await turn_numbers(connection, caller.tenant_id, _turns(project_id, thread_id))
    for item in shaped:
        if "latency_seconds" in item:
            item["latency"] = item.pop("latency_seconds")
        if "TURN_NUMBER" in asked:
            item["turn_number"] = numbers.get(item["trace_id"])
    last = page.rows[-1] if page.more else None
    return page_answer(request, shaped, write_cursor(last["start_time"], last["id"]) if last else None)


def _turns(project_id: UUID, thread_id: str) -> RunQuery:
    """The root runs of a thread in order."""
    return RunQuery(session_ids=[project_id], thread_id=thread_id, is_root=True, descending=False)


_STATISTICS = {
    "TURNS": "run_count",
    "TRACE_COUNT": "run_count",
    "LATENCY_P50": "latency_p50",
    "LATENCY_P99": "latency_p99",
    "FIRST_TOKEN_P50": "first_token_p50",
    "FIRST_TOKEN_P99": "first_token_p99",
    **{
        name.upper(): name
        for name in (
            *("prompt_tokens", "completion_tokens", "total_tokens", "median_tokens"),
            *("prompt_cost", "completion_cost", "total_cost", "error_rate", "streaming_rate"),
        )
    },
}
_SECONDS = ("LATENCY_P50", "LATENCY_P99", "FIRST_TOKEN_P50", "FIRST_TOKEN_P99")
_DETAILS = (
    "PROMPT_TOKEN_DETAILS",
    "COMPLETION_TOKEN_DETAILS",
    "PROMPT_COST_DETAILS",
    "COMPLETION_COST_DETAILS",
)


def _statistics(row: DictRow, asked: list[str]) -> dict[str, Any]:
    """Those of the asked statistics that a row of `run_stats` has, under their names on the wire."""
    unknown = [name for name in asked if name not in _STATISTICS and name not in (*_MORE, *_DETAILS)]
    if unknown:
        raise InvalidError(f"selects: {unknown[0][:80]!r} is not a statistic of threads.")
    answer: dict[str, Any] = {}
    for name in asked:
        if name in _DETAILS:
            raise NotOfferedError(
                f"{name} over threads is not offered here; select it of the thread's traces."
            )
        if name in _STATISTICS:
            value = row[_STATISTICS[name]]
            field = f"{name.lower()}_seconds" if name in _SECONDS else name.lower()
            answer[field] = float(value) if name.endswith("_COST") and value is not None else value
    return answer


_MORE = (
    *("FIRST_START_TIME", "LAST_START_TIME", "LAST_END_TIME", "FEEDBACK_STATS"),
    *("THREAD_COUNT", "THREAD_FEEDBACK_STATS"),
)


@router.get("/{thread_id}/stats", summary="Statistics of a thread")
async def read_stats(
    thread_id: ThreadId,
    session_id: UUID,
    selects: Annotated[list[str], Query(min_length=1, max_length=100)],
    services: CurrentServices,
    caller: CurrentCaller,
    filter: str | None = None,
) -> JsonAnswer:
    """Statistics over the traces of one thread. Times in seconds, costs in USD."""
    wanted = _turns(session_id, thread_id)
    wanted.conditions += _conditions(filter, None, None)
    async with bounded_reading(services) as connection:
        await require_projects(connection, caller.tenant_id, [session_id])
        answer = _statistics(await run_stats(connection, caller.tenant_id, wanted), selects)
        if "FEEDBACK_STATS" in selects:
            records = await feedback_records(connection, caller.tenant_id, wanted)
            answer["feedback_stats"] = feedback_stats(records)
        times = await bounds_of(connection, caller.tenant_id, wanted)
    return JsonAnswer(answer | {name: times[name] for name in times if name.upper() in selects})


class ThreadsStats(ThreadsQuery):
    """Statistics to compute over the traces that meet every filter."""

    select: Annotated[list[str], Field(min_length=1, max_length=100)]


@router.post("/stats", summary="Statistics of threads")
async def read_aggregate_stats(
    body: Annotated[ThreadsStats, Body()], services: CurrentServices, caller: CurrentCaller
) -> JsonAnswer:
    """Statistics over all traces of a project that belong to threads. Times in seconds, costs in USD."""
    start, before = body.bounds()
    wanted = RunQuery(
        session_ids=[body.project_id], in_thread=True, is_root=True, start_time=start, before=before
    )
    wanted.conditions = body.conditions()
    async with bounded_reading(services) as connection:
        await require_projects(connection, caller.tenant_id, [body.project_id])
        answer = _statistics(await run_stats(connection, caller.tenant_id, wanted), body.select)
        if "THREAD_COUNT" in body.select:
            answer["thread_count"] = await count_threads(connection, caller.tenant_id, wanted)
        if "THREAD_FEEDBACK_STATS" in body.select:
            records = await feedback_records(connection, caller.tenant_id, wanted)
            answer["thread_feedback_stats"] = feedback_stats(records)
    return JsonAnswer(answer)
