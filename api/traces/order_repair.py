"""Places in the tree of runs whose client sends none, once their ancestors are known.

A span tells its parent, not its path, and ends before its parent does, so it usually comes first. After each request
the paths of its traces are derived again; sums of tokens and costs follow the paths.
"""

from uuid import UUID

from api.services import Services
from api.traces.submission import Submission
from api.traces.writing import commit
from storage.database import Connection
from storage.projects import projects_for_writing
from storage.traces.changes import RunChange
from storage.traces.ingest import Batch
from storage.traces.order import TraceRun, path_of, unordered_traces


async def repair_orders(services: Services, tenant_id: UUID, submission: Submission) -> None:
    """Derive the paths of every run of the submission's traces again, where no client gave one.

    Also of runs in projects that the caller may not write to: a trace may span projects, and the paths are ours.
    """
    traces = {
        change.values["trace_id"]
        for change in submission.changes
        if change.values.get("trace_id") and change.values.get("dotted_order") is None
    }
    if not traces:
        return
    async with services.database.connection() as connection:
        runs = await unordered_traces(connection, tenant_id, list(traces))
    moved = [change for run_id in runs if (change := _moved(run_id, runs)) is not None]

    async def batch_of(connection: Connection) -> Batch:
        _, projects = await projects_for_writing(
            connection, tenant_id, [], {change.values["session_id"] for change in moved}
        )
        # Runs of a project that was deleted meanwhile stay as they are, until retention deletes them.
        return Batch(tenant_id, [c for c in moved if c.values["session_id"] in projects], projects)

    if moved:
        await commit(services, batch_of)


def _moved(run_id: UUID, runs: dict[UUID, TraceRun]) -> RunChange | None:
    run = runs[run_id]
    if run.is_given:
        return None
    order, ancestors = path_of(run_id, runs)
    if order == run.dotted_order:
        return None
    values = {
        "session_id": run.session_id,
        "trace_id": run.trace_id,
        "dotted_order": order,
        "parent_run_ids": ancestors,
    }
    return RunChange(run_id, False, values, provisional=frozenset({"session_id", "trace_id", "dotted_order"}))
