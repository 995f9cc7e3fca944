"""Deleting and pruning threads (contract §3.3)."""

from uuid import UUID

import structlog

from api.agent_server.run_cancellation import signal_cancel
from api.errors import UnavailableError
from api.services import Services
from storage.runs import UNFINISHED, Runs
from storage.served import ServedDeployment
from storage.thread_deletion import ThreadDeletion, delete_threads, keep_latest_state
from workflows.messages.thread import CancelAction

log = structlog.get_logger()

_BATCH = 100


async def remove_threads(services: Services, deployment: ServedDeployment, thread_ids: list[UUID]) -> int:
    """Delete threads with all they hold, if the caller may; runs of theirs are stopped. Returns how many there were."""
    removed = 0
    for start in range(0, len(thread_ids), _BATCH):
        removed += await _remove_batch(services, deployment, thread_ids[start : start + _BATCH])
    return removed


async def remove_threads_of_assistant(
    services: Services, deployment: ServedDeployment, assistant_id: UUID
) -> None:
    """Delete every thread whose last run was the assistant's, and that the caller may delete."""
    wanted = deployment.narrowed({"metadata": {"assistant_id": str(assistant_id)}})["metadata"]
    while True:
        async with services.database.connection() as connection:
            found = await ThreadDeletion(connection, deployment.scope).containing(wanted, _BATCH)
        if not found:
            return
        await _remove_batch(services, deployment, found)


async def prune_threads(services: Services, deployment: ServedDeployment, thread_ids: list[UUID]) -> int:
    """Keep only the newest state of the caller's threads without unfinished runs. Returns how many were pruned."""
    pruned = 0
    for thread_id in thread_ids:
        async with services.database.transaction() as holder:
            threads = ThreadDeletion(holder, deployment.scope)
            if await threads.hold([thread_id], deployment.metadata_filter, idle_only=True):
                async with services.database.connection() as other:
                    pruned += await keep_latest_state(holder, other, thread_id)
    return pruned


async def _remove_batch(services: Services, deployment: ServedDeployment, thread_ids: list[UUID]) -> int:
    scope = deployment.scope
    async with services.database.transaction() as connection:
        held = await ThreadDeletion(connection, scope).hold(thread_ids, deployment.metadata_filter)
        runs = Runs(connection, scope)
        unfinished = [
            row for thread_id in held for row in await runs.unfinished(list(UNFINISHED), thread_id, None)
        ]
        await delete_threads(connection, held)
    # The rows are gone, so these runs can write nothing more; the signals only end them sooner.
    for row in unfinished:
        try:
            await signal_cancel(services, scope, row, CancelAction.INTERRUPT)
        except UnavailableError:
            log.warning("cancel_not_sent", run_id=str(row["run_id"]), thread_id=str(row["thread_id"]))
    return len(held)
