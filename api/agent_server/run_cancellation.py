"""Stopping and deleting runs (contract §3.4)."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from api.errors import NotFoundError
from api.gateway import WorkflowNotFoundError
from api.services import Services
from storage.run_settlement import delete_run, roll_back_run, settle_run
from storage.runs import UNFINISHED, Runs
from storage.scope import DeploymentScope
from workflows.messages.lane import CancelLaneRun
from workflows.messages.thread import CancelAction, CancelRun, RunStatus


async def cancel_runs(
    services: Services,
    scope: DeploymentScope,
    action: CancelAction,
    *,
    statuses: tuple[str, ...] = UNFINISHED,
    thread_id: UUID | None = None,
    run_ids: list[UUID] | None = None,
    thread_metadata: dict[str, Any] | None = None,
) -> None:
    """Ask the workflows of all matching runs to stop them, the newest first; `thread_metadata` their threads contain.

    Raises:
        NotFoundError: no run matches that has not ended.
    """
    async with services.database.connection() as connection:
        rows = await Runs(connection, scope).unfinished(list(statuses), thread_id, run_ids, thread_metadata)
    if not rows:
        raise NotFoundError("No runs found to cancel.")
    for row in rows:
        await _cancel(services, scope, row, action)


async def remove_run(services: Services, scope: DeploymentScope, thread_id: UUID, run_id: UUID) -> None:
    """Delete a run; one that waits or runs is stopped, and may write nothing more.

    Raises:
        NotFoundError: the thread has no such run.
    """
    async with services.database.connection() as connection:
        runs = Runs(connection, scope)
        if await runs.get(thread_id, run_id) is None:
            raise NotFoundError("Run not found")
        unfinished = await runs.unfinished(list(UNFINISHED), thread_id, [run_id])
    async with services.database.transaction() as connection:
        await delete_run(connection, thread_id, run_id)
    for row in unfinished:
        await signal_cancel(services, scope, row, CancelAction.INTERRUPT)


async def _cancel(services: Services, scope: DeploymentScope, row: DictRow, action: CancelAction) -> None:
    if await signal_cancel(services, scope, row, action):
        return
    # Its workflow has ended, so nobody else will settle it.
    async with services.database.transaction() as connection:
        if action == CancelAction.ROLLBACK:
            await roll_back_run(connection, row["thread_id"], row["run_id"])
        else:
            await settle_run(connection, row["thread_id"], row["run_id"], RunStatus.INTERRUPTED, None)


async def signal_cancel(
    services: Services, scope: DeploymentScope, row: DictRow, action: CancelAction
) -> bool:
    """False if no workflow has the run."""
    run_id, thread_id = str(row["run_id"]), str(row["thread_id"])
    try:
        if row["lane"] is not None:
            await services.gateway.cancel_lane_run(
                str(scope.deployment_id),
                row["lane"],
                CancelLaneRun(run_id, thread_id, action),
            )
        else:
            await services.gateway.cancel_run(thread_id, CancelRun(run_id, action))
    except WorkflowNotFoundError:
        return False
    return True
