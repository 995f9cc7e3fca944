"""What a listener's compute can do, whatever it is made of."""

from types import TracebackType
from typing import Protocol

from storage.deployments import Deployment
from storage.revisions import Revision
from storage.worker_sets import WorkerSet


class CannotStartError(Exception):
    """The workers of a revision cannot be started; the message says what to correct."""


class Compute(Protocol):
    """Runs sets of revision workers, while it is entered. Every method may be repeated."""

    async def __aenter__(self) -> "Compute": ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def start(self, worker_set: WorkerSet, deployment: Deployment, revision: Revision) -> None:
        """Begin to run a set; it stays running until it is stopped.

        Raises:
            CannotStartError: what the revision needs is not there.
        """
        ...

    async def scale(self, worker_set: WorkerSet) -> None:
        """Bring a running set to its number of replicas."""
        ...

    async def running(self) -> list[str]:
        """Ids of all sets that this compute runs."""
        ...

    async def failure(self, worker_set_id: str) -> str | None:
        """Why a set does not start; None while it may still, or has."""
        ...

    async def stop(self, worker_set_id: str, drain_seconds: float) -> None:
        """Let a set's workers finish within `drain_seconds`, then end them; returns when they are gone."""
        ...

    async def remove_deployment(self, deployment_id: str, revision_ids: list[str]) -> None:
        """Remove what is stored on the compute for a deployment whose workers are gone."""
        ...
