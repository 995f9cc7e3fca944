"""Writing to a thread's state: done by the revision's worker, while no run can begin (docs/architecture/state.md)."""

import asyncio
from typing import Any
from uuid import UUID

from api.agent_server.gateway import execute_state_update
from api.errors import BadRequestError, ConflictError, NotFoundError, UnavailableError
from api.services import Services
from storage.assistants import Assistants
from storage.database import Connection
from storage.ids import new_id
from storage.served import ServedDeployment
from storage.state_updates import StateUpdates
from workflows.messages.revision import StateUpdate, StateUpdateOutcome

# Each update keeps a connection while it waits for its worker, so an API process does only so many at once.
_AT_ONCE = asyncio.Semaphore(4)
_QUEUE_SECONDS = 10.0


async def apply_update(
    services: Services,
    deployment: ServedDeployment,
    thread_id: UUID,
    supersteps: list[list[dict[str, Any]]],
    checkpoint: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write supersteps on a checkpoint, by default the newest; returns the checkpoint that holds them.

    Raises:
        NotFoundError: no such thread.
        ConflictError: a run waits or runs on the thread.
        BadRequestError: the thread has no graph, or the graph refuses the update.
        UnavailableError: no worker of the revision answered in time.
    """
    try:
        async with asyncio.timeout(_QUEUE_SECONDS):
            await _AT_ONCE.acquire()
    except TimeoutError:
        raise UnavailableError("Too many state updates at once; try again.") from None
    try:
        async with services.database.transaction() as holder:
            updates = StateUpdates(holder, deployment.scope)
            graph_id, request = await _request(holder, deployment, thread_id)
            request |= {"supersteps": supersteps, "checkpoint": checkpoint}
            written = await _execute(services, deployment, thread_id, graph_id, request)
            await updates.refresh_thread(thread_id)
        return written
    finally:
        _AT_ONCE.release()


async def _request(
    holder: Connection, deployment: ServedDeployment, thread_id: UUID
) -> tuple[str, dict[str, Any]]:
    """The thread's graph, and what its worker needs to know of the assistant. Holds the thread."""
    thread = await StateUpdates(holder, deployment.scope).hold_thread(thread_id)
    if thread is None:
        raise NotFoundError(f"Thread ID {thread_id} not found.")
    if thread["busy"]:
        raise ConflictError(
            "Thread is already running a task. Wait for it to finish before updating its state."
        )
    metadata: dict[str, Any] = thread["metadata"]
    graph_id = metadata.get("graph_id")
    if not isinstance(graph_id, str):
        raise BadRequestError("Thread has no graph: run one on it, or create it with metadata.graph_id.")
    if graph_id not in deployment.graph_ids:
        raise BadRequestError(f"The deployed revision has no graph '{graph_id}'.")
    assistant_id = metadata.get("assistant_id")
    assistant = await _assistant(holder, deployment, assistant_id)
    configured = (assistant["config"] or {}).get("configurable") or {} if assistant else {}
    return graph_id, {
        "configurable": {**configured, **deployment.server_configurable},
        "metadata": {
            "graph_id": graph_id,
            "assistant_id": assistant_id,
            "user_id": deployment.user_id,
            "created_by": "system",
        },
    }


async def _assistant(
    holder: Connection, deployment: ServedDeployment, assistant_id: Any
) -> dict[str, Any] | None:
    try:
        return await Assistants(holder, deployment.scope).get(UUID(str(assistant_id)))
    except ValueError:
        return None


async def _execute(
    services: Services,
    deployment: ServedDeployment,
    thread_id: UUID,
    graph_id: str,
    request: dict[str, Any],
) -> dict[str, Any]:
    update_id = new_id()
    async with services.database.connection() as connection:
        await StateUpdates(connection, deployment.scope).add(update_id, thread_id, graph_id, request)
    outcome: str = StateUpdateOutcome.FAILED
    try:
        update = StateUpdate(str(thread_id), str(update_id), str(deployment.revision_id))
        outcome = await execute_state_update(services.gateway, update)
    finally:
        async with services.database.connection() as connection:
            taken = await StateUpdates(connection, deployment.scope).take(update_id)
    response = taken["response"] if taken else None
    if response is None:
        raise UnavailableError(_unanswered(outcome), retry_after_seconds=5)
    if response.get("error"):
        raise BadRequestError(str(response["error"]))
    return dict(response["checkpoint"])


def _unanswered(outcome: str) -> str:
    if outcome == StateUpdateOutcome.NO_WORKER:
        return "No worker of the deployed revision answered in time; the state was not changed."
    return "The worker did not finish the update; read the state before trying again."
