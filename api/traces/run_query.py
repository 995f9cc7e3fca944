"""The body of `/runs/query` and its cursor (trace contract §5.5)."""

import base64
import binascii
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from psycopg.rows import DictRow
from pydantic import BaseModel, ConfigDict, Field

from api.errors import BadRequestError
from storage.filters.compile import FilterError, compile_filter
from storage.traces.changes import RunType
from storage.traces.columns import LARGE
from storage.traces.runs import RunPage, RunQuery

MAX_PAGE = 100
MAX_IDS = 1_000
TRACE_PAGE = 1_000
_Ids = Annotated[list[UUID], Field(max_length=MAX_IDS)]


Condition = tuple[str, dict[str, Any]]


class RunFilters(BaseModel):
    """Conditions on runs; all that are set must hold. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    id: _Ids | None = None
    trace: UUID | None = None
    parent_run: UUID | None = None
    run_type: RunType | None = None
    session: _Ids | None = None
    reference_example: _Ids | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    error: bool | None = None
    query: str | None = None
    filter: str | None = None
    trace_filter: str | None = None
    tree_filter: str | None = None
    search_filter: str | None = None
    is_root: bool | None = None


class RunQueryBody(RunFilters):
    """Conditions, order and page of a run query."""

    cursor: str | None = None
    limit: int | None = Field(None, ge=1)
    select: list[str] | None = None
    order: Literal["asc", "desc"] = "desc"


def to_query(body: RunQueryBody) -> RunQuery:
    """The same in the words of the repository.

    Raises:
        BadRequestError: a filter or the cursor is malformed.
    """
    query = RunQuery() if body.id is not None else filters_to_query(body)
    query.descending = body.order == "desc"
    query.limit = min(body.limit or MAX_PAGE, MAX_PAGE)
    query.documents = LARGE if body.select is None else _documents(body.select)
    if body.id is not None:
        query.run_ids = body.id
        query.limit = MAX_IDS
    elif body.trace is not None:
        query.limit = TRACE_PAGE
    if body.cursor:
        query.after, query.backwards = read_cursor(body.cursor)
    return query


def filters_to_query(body: RunFilters) -> RunQuery:
    """The conditions alone.

    Raises:
        BadRequestError: a filter is malformed.
    """
    return RunQuery(
        run_ids=body.id,
        session_ids=body.session,
        trace_id=body.trace,
        parent_run_id=body.parent_run,
        reference_example_ids=body.reference_example,
        run_type=body.run_type,
        is_root=body.is_root,
        has_error=body.error,
        start_time=_aware(body.start_time),
        end_time=_aware(body.end_time),
        conditions=list(conditions_of(body)),
    )


def _aware(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC)


def conditions_of(body: RunFilters) -> Iterator[Condition]:
    """SQL of every filter that is set.

    Raises:
        BadRequestError: one is malformed; says which, where, and what was expected.
    """
    if body.query and body.query.strip():
        yield _compiled("query", f"search({json.dumps(body.query)})", "r", "{condition}")
    yield from (
        _compiled(name, text, alias, frame)
        for name, text, alias, frame in (
            ("filter", body.filter, "r", "{condition}"),
            ("search_filter", body.search_filter, "r", "{condition}"),
            ("trace_filter", body.trace_filter, "root", _IN_ROOT),
            ("tree_filter", body.tree_filter, "node", _IN_TREE),
        )
        if text and text.strip()
    )


_IN_ROOT = (
    "EXISTS (SELECT FROM trace_runs root WHERE root.tenant_id = r.tenant_id AND root.trace_id = r.trace_id"
    " AND root.is_root AND {condition})"
)
_IN_TREE = (
    "EXISTS (SELECT FROM trace_runs node WHERE node.tenant_id = r.tenant_id AND node.trace_id = r.trace_id"
    " AND {condition})"
)


def _compiled(name: str, text: str, alias: str, frame: str) -> Condition:
    try:
        compiled = compile_filter(text, alias=alias, prefix=f"{name}_")
    except FilterError as error:
        raise BadRequestError(f"{name}: {error}") from None
    return frame.replace("{condition}", compiled.sql), compiled.params


def cursors(page: RunPage, query: RunQuery) -> dict[str, str | None]:
    """`next`, where the page after this one begins, and `prev`, where the page before it ends; None for no page."""
    if not page.rows:
        return {"next": None, "prev": None}
    has_next = page.more or query.backwards
    has_previous = page.more if query.backwards else query.after is not None
    return {
        "next": _write_cursor(page.rows[-1], "") if has_next else None,
        "prev": _write_cursor(page.rows[0], _BACKWARDS) if has_previous else None,
    }


_BACKWARDS = "before|"


def _write_cursor(row: DictRow, direction: str) -> str:
    place = f"{direction}{row['start_time'].isoformat()}|{row['id']}"
    return base64.urlsafe_b64encode(place.encode()).decode()


def read_cursor(text: str) -> tuple[tuple[datetime, UUID], bool]:
    """The place that a cursor names, and whether the page ends there and does not begin there.

    Raises:
        BadRequestError: it is not one of ours.
    """
    try:
        place = base64.urlsafe_b64decode(text.encode()).decode()
        moment, _, run_id = place.removeprefix(_BACKWARDS).partition("|")
        return (datetime.fromisoformat(moment), UUID(run_id)), place.startswith(_BACKWARDS)
    except (ValueError, binascii.Error):
        raise BadRequestError("cursor: not one that this server gave out.") from None


def _documents(select: list[str]) -> tuple[str, ...]:
    asked: set[str] = set(select)
    if "manifest" in asked:
        asked.add("serialized")
    return tuple(name for name in LARGE if name in asked)
