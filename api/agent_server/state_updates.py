"""Writing to a thread's state: done by the revision's worker, in its turn among runs (docs/architecture/state.md)."""

import asyncio
import contextlib
from typing import Any
from uuid import UUID

from api.agent_server.run_creation import thread_input
from api.errors import BadRequestError, ConflictError, NotFoundError, UnavailableError
from api.notifications import Subscription
from api.services import Services
from storage.assistants import Assistants
from storage.database import Connection
from storage.ids import new_id
from storage.served import ServedDeployment
from storage.state_updates import StateUpdates
from workflows.messages.revision import StateUpdate

# What an update may take beyond its own bounds: its place in the queue, and the platform's worker.
_SLACK_SECONDS = 10.0
# A notification may be lost with its connection.
_LOOK_SECONDS = 5.0


async def apply_update(
    services: Services,
    deployment: ServedDeployment,
    thread_id: UUID,
    supersteps: list[list[dict[str, Any]]],
    checkpoint: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write supersteps on a checkpoint, by default the newest; returns the checkpoint that holds them.

    Runs that are created meanwhile wait their turn behind it.

    Raises:
        NotFoundError: no such thread.
        ConflictError: a run waits or runs on the thread.
        BadRequestError: the thread has no graph, or the graph refuses the update.
        UnavailableError: no worker of the revision answered in time.
    """
    update_id = new_id()
    with services.notifications.subscribe(str(thread_id), by_events=False) as changes:
        async with services.database.transaction() as connection:
            graph_id, request = await _request(connection, deployment, thread_id)
            request |= {"supersteps": supersteps, "checkpoint": checkpoint}
            await StateUpdates(connection, deployment.scope).add(update_id, thread_id, graph_id, request)
        try:
            await _execute(services, deployment, thread_id, update_id, changes)
        finally:
            async with services.database.connection() as connection:
                taken = await StateUpdates(connection, deployment.scope).take(update_id)
    if taken is None:
        raise NotFoundError(f"Thread ID {thread_id} not found.")
    response = taken["response"]
    if response is None:
        raise UnavailableError(_unanswered(claimed=bool(taken["claimed_at"])), retry_after_seconds=5)
    if response.get("error"):
        raise BadRequestError(str(response["error"]))
    return dict(response["checkpoint"])


async def _request(
    connection: Connection, deployment: ServedDeployment, thread_id: UUID
) -> tuple[str, dict[str, Any]]:
    """The thread's graph, and what its worker needs to know of the assistant."""
    thread = await StateUpdates(connection, deployment.scope).hold_thread(thread_id)
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
    assistant = await _assistant(connection, deployment, assistant_id)
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
    connection: Connection, deployment: ServedDeployment, assistant_id: Any
) -> dict[str, Any] | None:
    try:
        return await Assistants(connection, deployment.scope).get(UUID(str(assistant_id)))
    except ValueError:
        return None


async def _execute(
    services: Services,
    deployment: ServedDeployment,
    thread_id: UUID,
    update_id: UUID,
    changes: Subscription,
) -> None:
    """Returns when the update has ended, or at the deadline."""
    update = StateUpdate(str(thread_id), str(update_id), str(deployment.revision_id))
    await services.gateway.submit_state_update(thread_input(services, deployment, thread_id), update)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(update.wait_seconds + update.execute_seconds + _SLACK_SECONDS):
            while await _is_open(services, deployment, update_id):
                await changes.wait(_LOOK_SECONDS)


async def _is_open(services: Services, deployment: ServedDeployment, update_id: UUID) -> bool:
    async with services.database.connection() as connection:
        return await StateUpdates(connection, deployment.scope).is_open(update_id)


def _unanswered(*, claimed: bool) -> str:
    if claimed:
        return "The worker did not finish the update; read the state before trying again."
    return "No worker of the deployed revision answered in time; the state was not changed."
