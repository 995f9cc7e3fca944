"""Monthly partitions of `trace_runs`, made before the first row of a month is written."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from storage.database import Database

# Runs that claim to be from outside this range go into the default partition: nobody's clock makes partitions.
_PAST = timedelta(days=5 * 366)
_FUTURE = timedelta(days=62)

_known: dict[str, set[tuple[int, int]]] = {}


async def ensure_partitions(database: Database, moments: Iterable[datetime]) -> None:
    """Make what is missing, in transactions of their own; remembers per process what is there."""
    now = datetime.now(UTC)
    known = _known.setdefault(database.url, set())
    # A run without a start time begins now.
    wanted = [now, *(moment for moment in moments if now - _PAST < moment < now + _FUTURE)]
    months = {(moment.year, moment.month): moment for moment in wanted}
    for month, moment in months.items():
        if month not in known:
            async with database.connection() as connection:
                await connection.execute("SELECT slipway_ensure_trace_partition(%s)", (moment,))
            known.add(month)
