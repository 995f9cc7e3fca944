"""Projects as clients read them: TracerSession of trace contract §5.6."""

from typing import Any

from psycopg.rows import DictRow

from api.traces.run_facets import read_facets
from api.traces.run_shape import shape_stats
from storage.database import Connection
from storage.feedback import session_feedback
from storage.traces.feedback_stats import feedback_stats
from storage.traces.runs import RunQuery
from storage.traces.stats import feedback_records, run_stats


def shape_project(row: DictRow) -> dict[str, Any]:
    """A row of `storage.project_lists` as TracerSession."""
    return dict(row)


async def shape_with_stats(connection: Connection, row: DictRow, *, facets: bool = False) -> dict[str, Any]:
    """The same with statistics over the project's root runs, and its feedback. Latencies in seconds.

    With `facets` also what its runs have in common, see `api.traces.run_facets`.
    """
    query = RunQuery(session_ids=[row["id"]], is_root=True)
    stats = shape_stats(await run_stats(connection, row["tenant_id"], query))
    on_runs = await feedback_records(connection, row["tenant_id"], query)
    on_project = await session_feedback(connection, row["tenant_id"], row["id"])
    return {
        **shape_project(row),
        **stats,
        "feedback_stats": feedback_stats(on_runs),
        "session_feedback_stats": feedback_stats(on_project),
        "run_facets": await read_facets(connection, row["tenant_id"], query) if facets else [],
    }
