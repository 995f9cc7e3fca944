"""How an export's window is cut into runs: one per project and UTC day, without gap or overlap."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

from storage.export_rows import DayCount
from storage.export_runs import PlannedRun

_DAY = timedelta(days=1)
# Beyond so many, days without a single run are taken together: a window from 1970 on stays cheap.
MAX_SINGLE_DAYS = 10_000


def tile(
    projects: list[UUID], start_time: datetime, end_time: datetime, counts: list[DayCount]
) -> list[PlannedRun]:
    """The runs of each project, in order of time; they cover exactly [start_time, end_time).

    `counts` holds the days that have rows; `rows` of every other run is 0.
    """
    rows = {(count.session_id, count.day): count.rows for count in counts}
    start, end = start_time.astimezone(UTC), end_time.astimezone(UTC)
    merge_empty = ((end - start) // _DAY + 2) * len(projects) > MAX_SINGLE_DAYS
    planned: list[PlannedRun] = []
    for project in projects:
        days = (
            sorted(day.astimezone(UTC) for session, day in rows if session == project)
            if merge_empty
            else None
        )
        pieces = _around(start, end, days) if days is not None else _days(start, end)
        planned += [
            PlannedRun(project, lower, upper, rows.get((project, _midnight(lower)), 0))
            for lower, upper in pieces
        ]
    return planned


def _days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    lower = start
    while lower < end:
        upper = min(_midnight(lower) + _DAY, end)
        yield lower, upper
        lower = upper


def _around(start: datetime, end: datetime, days: list[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """Each of `days` by itself, and whatever lies between them in one piece."""
    lower = start
    for day in days:
        if lower < day:
            yield lower, day
        lower = min(day + _DAY, end)
        yield max(day, start), lower
    if lower < end:
        yield lower, end


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
