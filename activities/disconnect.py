"""Runs whose clients took them with them, and whose API process died before it could say so."""

from psycopg.rows import DictRow
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from storage.database import Database
from storage.run_settlement import settle_run
from storage.run_watchers import lapsed_watchers, remove_watcher
from workflows.messages import names
from workflows.messages.lane import CancelLaneRun
from workflows.messages.thread import CANCEL_SIGNAL, CancelAction, CancelRun, RunStatus

_BATCH = 100


async def cancel_unwatched_runs(database: Database, client: Client) -> tuple[int, bool]:
    """Cancel the runs of watchers that lapsed; how many there were, and whether more may be waiting."""
    async with database.connection() as connection:
        rows = await lapsed_watchers(connection, _BATCH)
    for row in rows:
        if row["unfinished"] and not await _signal_cancel(client, row):
            # Its workflow has ended, so nobody else will settle it.
            async with database.transaction() as connection:
                await settle_run(connection, row["thread_id"], row["run_id"], RunStatus.INTERRUPTED, None)
        # Last: a sweep that dies before this finds the watcher again, and a run may be cancelled twice.
        async with database.connection() as connection:
            await remove_watcher(connection, row["watcher_id"])
    return len(rows), len(rows) == _BATCH


async def _signal_cancel(client: Client, row: DictRow) -> bool:
    """False if no workflow has the run."""
    run_id, thread_id = str(row["run_id"]), str(row["thread_id"])
    message: CancelRun | CancelLaneRun = CancelRun(run_id, CancelAction.INTERRUPT)
    workflow_id = names.thread_workflow_id(thread_id)
    if row["lane"] is not None:
        message = CancelLaneRun(run_id, thread_id, CancelAction.INTERRUPT)
        workflow_id = names.lane_workflow_id(str(row["deployment_id"]), row["lane"])
    try:
        await client.get_workflow_handle(workflow_id).signal(CANCEL_SIGNAL, message)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True
