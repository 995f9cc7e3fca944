"""Starting, watching and stopping revision workers: what a listener is asked by rollouts."""

import asyncio
from uuid import UUID

from temporalio import activity

from activities.compute.protocol import CannotStartError, Compute
from activities.heartbeats import heartbeats
from storage.database import Database
from storage.deployments import get_deployment
from storage.revisions import Revision, advance_revision, get_revision, revision_ids
from storage.worker_sets import unwant_workers, want_workers
from workflows.messages.rollout import (
    REMOVE_DEPLOYMENT,
    START_WORKERS,
    STOP_WORKERS,
    WATCH_WORKERS,
    DeploymentRef,
    RevisionStatus,
    StartWorkers,
    StepResult,
    StopWorkers,
    WatchWorkers,
    predecessors,
)

_WATCH_SECONDS = 0.5


class WorkerActivities:
    """Sets of workers on one compute. The table `worker_sets` says what should run; it is written first."""

    def __init__(self, database: Database, compute: Compute) -> None:
        self._database = database
        self._compute = compute

    @activity.defn(name=START_WORKERS)
    async def start(self, start: StartWorkers) -> StepResult:
        """Start a set; the revision is DEPLOYING from now on."""
        ref = start.revision
        tenant_id, deployment_id, revision_id = map(UUID, (ref.tenant_id, ref.deployment_id, ref.revision_id))
        async with self._database.transaction() as connection:
            deployment = await get_deployment(connection, tenant_id, deployment_id)
            revision = await get_revision(connection, tenant_id, deployment_id, revision_id)
            if deployment is None or revision is None:
                return StepResult("The deployment is gone.")
            status = RevisionStatus.DEPLOYING
            await advance_revision(connection, tenant_id, revision_id, status, None, predecessors(status))
            worker_set = await want_workers(
                connection,
                worker_set_id=UUID(start.worker_set_id),
                tenant_id=tenant_id,
                deployment_id=deployment_id,
                revision_id=revision_id,
                listener_id=UUID(start.listener_id),
                replicas=_replicas(revision),
                drain_seconds=start.drain_seconds,
            )
        if worker_set is None or worker_set.desired != "running":
            return StepResult("The rollout was ended.")
        try:
            async with heartbeats():
                await self._compute.start(worker_set, deployment, revision)
        except CannotStartError as error:
            return StepResult(str(error))
        return StepResult()

    @activity.defn(name=WATCH_WORKERS)
    async def watch(self, watch: WatchWorkers) -> StepResult:
        """Ends when the workers turn out not to start; cancelled when they have."""
        async with heartbeats():
            while True:
                failure = await self._compute.failure(watch.worker_set_id)
                if failure:
                    return StepResult(failure)
                await asyncio.sleep(_WATCH_SECONDS)

    @activity.defn(name=STOP_WORKERS)
    async def stop(self, stop: StopWorkers) -> None:
        async with self._database.connection() as connection:
            await unwant_workers(connection, UUID(stop.revision.tenant_id), UUID(stop.worker_set_id))
        async with heartbeats():
            await self._compute.stop(stop.worker_set_id, stop.drain_seconds)

    @activity.defn(name=REMOVE_DEPLOYMENT)
    async def remove_deployment(self, ref: DeploymentRef) -> None:
        async with self._database.connection() as connection:
            ids = await revision_ids(connection, UUID(ref.tenant_id), UUID(ref.deployment_id))
        async with heartbeats():
            await self._compute.remove_deployment(
                ref.deployment_id, [str(revision_id) for revision_id in ids]
            )


def _replicas(revision: Revision) -> int:
    """Worker processes of a revision; at least one, as its probe needs one."""
    spec = revision.source_config.get("resource_spec", {})
    return max(1, spec.get("queue_min_scale") or spec.get("min_scale") or 1)
