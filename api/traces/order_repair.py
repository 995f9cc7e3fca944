"""Places in the tree of runs whose client sends none, once their ancestors are known.

A span tells its parent, not its path, and ends before its parent does, so it usually comes first. After each request
the paths of its traces are derived again; sums of tokens and costs follow the paths.
"""

from uuid import UUID

from api.authentication import Caller
from api.services import Services
from api.traces.submission import Submission
from api.traces.writing import store
from storage.traces.changes import RunChange
from storage.traces.order import TraceRun, path_of, unordered_traces


async def repair_orders(services: Services, caller: Caller, submission: Submission) -> None:
    """Derive the paths of every run of the submission's traces again, where no client gave one."""
    traces = {
        change.values["trace_id"]
        for change in submission.changes
        if change.values.get("trace_id") and change.values.get("dotted_order") is None
    }
    if not traces:
        return
    async with services.database.connection() as connection:
        runs = await unordered_traces(connection, caller.tenant_id, list(traces))
    changes = [change for run_id in runs if (change := _moved(run_id, runs)) is not None]
    await store(services, caller, Submission(changes))


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
