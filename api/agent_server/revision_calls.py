"""Asking a revision's worker, for what only the user's own code can answer (docs/architecture/revision-calls.md)."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio.client import ActivityFailureError

from api.errors import InvalidError, UnavailableError
from api.gateway import mapped
from api.services import Services
from storage.ids import new_id
from storage.revision_calls import RevisionCalls
from storage.served import ServedDeployment
from workflows.messages import names
from workflows.messages.revision import CALL_REVISION, CallKind, CallRevision


class RevisionCallError(Exception):
    """User code failed at the call; `kind` is its exception's class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


async def call_revision(
    services: Services,
    deployment: ServedDeployment,
    kind: CallKind,
    request: dict[str, Any],
    timeout_seconds: float = 15.0,
) -> Any:
    """The answer of a worker of the revision that serves.

    Raises:
        InvalidError: the worker refuses the request, and says why.
        RevisionCallError: the user's code raised.
        UnavailableError: no worker answered in time.
    """
    call_id = new_id()
    assert deployment.revision_id is not None, "only a serving deployment is asked"
    async with services.database.connection() as connection:
        await RevisionCalls(connection, deployment.scope).add(call_id, deployment.revision_id, kind, request)
    try:
        await _execute(services, deployment, CallRevision(str(call_id)), timeout_seconds)
    finally:
        async with services.database.connection() as connection:
            response = await RevisionCalls(connection, deployment.scope).take(call_id)
    if response is None:
        raise UnavailableError("No worker of the deployed revision answered in time; try again.", 2)
    if refused := response.get("refused"):
        raise InvalidError(str(refused))
    if error := response.get("error"):
        raise RevisionCallError(str(error["type"]), str(error["message"]))
    return response.get("result")


async def _execute(
    services: Services, deployment: ServedDeployment, call: CallRevision, timeout_seconds: float
) -> None:
    """Returns when the worker has stored its response, or at the deadline."""
    try:
        async with asyncio.timeout(timeout_seconds + 2):
            await mapped(
                services.gateway.client.execute_activity(
                    CALL_REVISION,
                    call,
                    id=f"call/{call.call_id}",
                    task_queue=names.revision_queue(str(deployment.revision_id)),
                    schedule_to_close_timeout=timedelta(seconds=timeout_seconds),
                    start_to_close_timeout=timedelta(seconds=timeout_seconds),
                )
            )
    except (TimeoutError, ActivityFailureError):
        return
