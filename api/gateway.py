"""The only module of the API that talks to Temporal; its errors become ours, by status code."""

from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from api.errors import UnavailableError
from workflows.messages import names, submission
from workflows.messages.lane import CancelLaneRun, LaneInput, LaneRun
from workflows.messages.revision import StateUpdate
from workflows.messages.thread import CANCEL_SIGNAL, CancelRun, Run, ThreadInput

RPC_TIMEOUT = timedelta(seconds=5)
_AWAY = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED}

T = TypeVar("T")


class WorkflowNotFoundError(Exception):
    """No such workflow is running."""


class TemporalGateway:
    """Starts, signals and queries of the platform's workflows.

    Every method raises `UnavailableError` (503) when Temporal cannot be reached within 5 s; the call then had
    no effect, or the same effect as its repetition.
    """

    def __init__(self, client: Client) -> None:
        self.client = client

    async def submit_run(self, thread: ThreadInput, run: Run) -> None:
        """Put a run at the end of its thread's queue; starts the thread's workflow if it sleeps."""
        await mapped(submission.submit_run(self.client, thread, run))

    async def submit_state_update(self, thread: ThreadInput, update: StateUpdate) -> None:
        """Put a state update before the runs that its thread receives from now on."""
        await mapped(submission.submit_state_update(self.client, thread, update))

    async def cancel_run(self, thread_id: str, cancel: CancelRun) -> None:
        """Ask a thread's workflow to cancel a run.

        Raises:
            WorkflowNotFoundError: the thread's workflow has ended, so no run of it waits or runs.
        """
        handle = self.client.get_workflow_handle(names.thread_workflow_id(thread_id))
        await mapped(handle.signal(CANCEL_SIGNAL, cancel, rpc_timeout=RPC_TIMEOUT))

    async def submit_lane_run(self, lane: LaneInput, number: int, run: LaneRun) -> None:
        """Give a stateless run to one of its deployment's lanes; starts the lane if it sleeps."""
        await mapped(submission.submit_lane_run(self.client, lane, number, run))

    async def cancel_lane_run(self, deployment_id: str, number: int, cancel: CancelLaneRun) -> None:
        """Ask a lane to cancel a run.

        Raises:
            WorkflowNotFoundError: the lane has ended, so none of its runs waits or runs.
        """
        handle = self.client.get_workflow_handle(names.lane_workflow_id(deployment_id, number))
        await mapped(handle.signal(CANCEL_SIGNAL, cancel, rpc_timeout=RPC_TIMEOUT))

    async def is_reachable(self) -> bool:
        """Whether Temporal's frontend answers a health call."""
        try:
            return await self.client.service_client.check_health(timeout=timedelta(seconds=2))
        except RPCError:
            return False


async def mapped(call: Awaitable[T]) -> T:
    try:
        return await call
    except RPCError as error:
        if error.status in _AWAY:
            raise UnavailableError(
                "The workflow engine cannot be reached; nothing was changed, try again."
            ) from error
        if error.status == RPCStatusCode.NOT_FOUND:
            raise WorkflowNotFoundError(error.message) from error
        raise
