"""What rollouts do to the platform's own records, and where runs are sent."""

import asyncio
import secrets as random_secrets
from uuid import UUID

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.worker_deployments import VersionMissingError, WorkerDeployments
from storage.assistants import ensure_system_assistants
from storage.database import Connection, Database
from storage.deployment_removal import crons_of, remove_deployment, unfinished_work
from storage.deployments import Deployment, get_deployment, update_deployment
from storage.objects import ObjectStore
from storage.revisions import (
    Revision,
    advance_revision,
    get_revision,
    graph_ids_of,
    store_description,
    tally_runs,
)
from storage.secrets import SecretBox
from storage.tenancy import create_key
from storage.uploads import object_keys
from storage.worker_roles import drop_role, ensure_role
from storage.worker_sets import other_workers
from workflows.messages import names
from workflows.messages.rollout import (
    ACTIVATE_REVISION,
    ADMIT_REVISION,
    BEGIN_DELETION,
    CLEAR_RAMP,
    DELETE_RECORDS,
    PROVISION_DEPLOYMENT,
    SET_RAMP,
    SET_REVISION_STATUS,
    STORE_DESCRIPTION,
    TALLY_RUNS,
    Activated,
    ActivateRevision,
    Admission,
    AdmitRevision,
    DeleteRecords,
    DeploymentRef,
    DeploymentStatus,
    RevisionRef,
    RevisionStatus,
    RunTally,
    SetRamp,
    SetRevisionStatus,
    StoreDescription,
    predecessors,
)

# Messages are sent inside the transaction that writes their rows: an activity may come before the commit.
_COMMIT_SECONDS = 8.0
_POLL_SECONDS = 0.05
_BUILT = ("github", "internal_source")


class RolloutActivities:
    """Projections of a deployment's workflow into PostgreSQL, and the switch of its traffic. All idempotent."""

    def __init__(
        self, database: Database, secrets: SecretBox, routing: WorkerDeployments, objects: ObjectStore
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._routing = routing
        self._objects = objects

    @activity.defn(name=PROVISION_DEPLOYMENT)
    async def provision(self, ref: DeploymentRef) -> bool:
        """The database role and keys of a deployment's workers; False if its creation was never committed."""
        tenant_id, deployment_id = UUID(ref.tenant_id), UUID(ref.deployment_id)
        if await self._committed_deployment(tenant_id, deployment_id) is None:
            return False
        async with self._database.transaction() as connection:
            deployment = await get_deployment(connection, tenant_id, deployment_id, lock=True)
            if deployment is None:
                return False
            credentials = await self._credentials(connection, deployment)
            await ensure_role(connection, deployment_id, credentials["password"])
            if deployment.status == DeploymentStatus.AWAITING_DATABASE:
                await update_deployment(
                    connection, tenant_id, deployment_id, {"status": DeploymentStatus.READY.value}
                )
        return True

    @activity.defn(name=ADMIT_REVISION)
    async def admit(self, admit: AdmitRevision) -> Admission:
        """Whether a submitted revision exists, and whether it needs a build."""
        revision = await self._committed_revision(admit.revision)
        if revision is None:
            return Admission(found=False)
        needs_build = revision.source in _BUILT and not (admit.redeploy and revision.build)
        return Admission(found=True, needs_build=needs_build)

    @activity.defn(name=SET_REVISION_STATUS)
    async def set_status(self, change: SetRevisionStatus) -> None:
        """Move a revision on, once its creation is committed; where it may not go there, it stays."""
        if not await self._advance(change) and await self._committed_revision(change.revision):
            await self._advance(change)

    async def _advance(self, change: SetRevisionStatus) -> bool:
        async with self._database.connection() as connection:
            return await advance_revision(
                connection,
                UUID(change.revision.tenant_id),
                UUID(change.revision.revision_id),
                change.status,
                change.message,
                predecessors(change.status),
            )

    @activity.defn(name=STORE_DESCRIPTION)
    async def store_description(self, store: StoreDescription) -> None:
        """Keep what the probe saw: the agent server answers schemas and drawings from it."""
        async with self._database.connection() as connection:
            await store_description(
                connection,
                UUID(store.revision.tenant_id),
                UUID(store.revision.revision_id),
                store.description,
            )

    @activity.defn(name=ACTIVATE_REVISION)
    async def activate(self, activate: ActivateRevision) -> Activated:
        """Send all runs to a revision, and note that it serves.

        Raises:
            ApplicationError: not to be retried: its workers do not poll for runs.
        """
        ref = activate.revision
        tenant_id, deployment_id = UUID(ref.tenant_id), UUID(ref.deployment_id)
        try:
            await self._routing.set_current(ref.deployment_id, ref.revision_id)
        except VersionMissingError as error:
            raise ApplicationError(str(error), type="VersionMissing", non_retryable=True) from error
        async with self._database.transaction() as connection:
            graph_ids = await advance_to_deployed(connection, ref)
            await ensure_system_assistants(connection, tenant_id, deployment_id, graph_ids)
            others = await other_workers(connection, tenant_id, deployment_id, UUID(activate.worker_set_id))
        return Activated([str(other.id) for other in others])

    @activity.defn(name=SET_RAMP)
    async def set_ramp(self, ramp: SetRamp) -> None:
        await self._routing.set_ramp(ramp.revision.deployment_id, ramp.revision.revision_id, ramp.percent)

    @activity.defn(name=CLEAR_RAMP)
    async def clear_ramp(self, ref: RevisionRef) -> None:
        await self._routing.clear_ramp(ref.deployment_id)

    @activity.defn(name=TALLY_RUNS)
    async def tally(self, ref: RevisionRef) -> RunTally:
        """How the runs of a revision that is being ramped up have ended."""
        async with self._database.connection() as connection:
            ended, failed = await tally_runs(
                connection, UUID(ref.tenant_id), UUID(ref.deployment_id), UUID(ref.revision_id)
            )
        return RunTally(ended, failed)

    @activity.defn(name=BEGIN_DELETION)
    async def begin_deletion(self, ref: DeploymentRef) -> Activated:
        """End what waits or runs on the deployment; the sets of workers to stop."""
        tenant_id, deployment_id = UUID(ref.tenant_id), UUID(ref.deployment_id)
        async with self._database.connection() as connection:
            threads, lanes = await unfinished_work(connection, tenant_id, deployment_id)
            crons = await crons_of(connection, tenant_id, deployment_id)
            others = await other_workers(connection, tenant_id, deployment_id, None)
        for cron_id in crons:
            await self._routing.delete_schedule(names.cron_schedule_id(str(cron_id)))
        for thread_id in threads:
            await self._routing.terminate(names.thread_workflow_id(str(thread_id)))
            activity.heartbeat()
        for lane in lanes:
            await self._routing.terminate(names.lane_workflow_id(ref.deployment_id, lane))
        await self._routing.clear_current(ref.deployment_id)
        return Activated([str(other.id) for other in others])

    @activity.defn(name=DELETE_RECORDS)
    async def delete_records(self, deletion: DeleteRecords) -> None:
        """The last stage of a deletion: uploads, Temporal's record, database role, rows."""
        tenant_id = UUID(deletion.deployment.tenant_id)
        deployment_id = UUID(deletion.deployment.deployment_id)
        async with self._database.connection() as connection:
            status = DeploymentStatus.AWAITING_FINAL_DELETE.value
            await update_deployment(connection, tenant_id, deployment_id, {"status": status})
            keys = await object_keys(connection, tenant_id, deployment_id)
        for key in keys:
            await self._objects.delete(key)
        await self._routing.delete(deletion.deployment.deployment_id)
        async with self._database.transaction() as connection:
            await drop_role(connection, deployment_id)
            await remove_deployment(
                connection, tenant_id, deployment_id, with_project=deletion.delete_tracing_project
            )

    async def _credentials(self, connection: Connection, deployment: Deployment) -> dict[str, str]:
        if deployment.worker_credentials:
            known: dict[str, str] = self._secrets.decrypt(deployment.worker_credentials)
            return known
        made = {
            "password": random_secrets.token_urlsafe(32),
            "tracing_key": await create_key(
                connection,
                deployment.tenant_id,
                f"workers of {deployment.name}",
                scope="tracing",
                deployment_id=deployment.id,
            ),
        }
        await update_deployment(
            connection,
            deployment.tenant_id,
            deployment.id,
            {"worker_credentials": self._secrets.encrypt(made)},
        )
        return made

    async def _committed_deployment(self, tenant_id: UUID, deployment_id: UUID) -> Deployment | None:
        deadline = asyncio.get_running_loop().time() + _COMMIT_SECONDS
        while True:
            async with self._database.connection() as connection:
                deployment = await get_deployment(connection, tenant_id, deployment_id)
            if deployment or asyncio.get_running_loop().time() > deadline:
                return deployment
            await asyncio.sleep(_POLL_SECONDS)

    async def _committed_revision(self, ref: RevisionRef) -> Revision | None:
        """The revision, once its transaction is through: its row lock on the deployment tells when."""
        deadline = asyncio.get_running_loop().time() + _COMMIT_SECONDS
        tenant_id, deployment_id = UUID(ref.tenant_id), UUID(ref.deployment_id)
        while True:
            async with self._database.transaction() as connection:
                # The sender holds this row until it commits or rolls back.
                await get_deployment(connection, tenant_id, deployment_id, lock=True)
                revision = await get_revision(connection, tenant_id, deployment_id, UUID(ref.revision_id))
            if revision or asyncio.get_running_loop().time() > deadline:
                return revision
            await asyncio.sleep(_POLL_SECONDS)


async def advance_to_deployed(connection: Connection, ref: RevisionRef) -> list[str]:
    """The revision serves from now on; ids of its graphs."""
    tenant_id, deployment_id, revision_id = (
        UUID(ref.tenant_id),
        UUID(ref.deployment_id),
        UUID(ref.revision_id),
    )
    await advance_revision(
        connection,
        tenant_id,
        revision_id,
        RevisionStatus.DEPLOYED,
        None,
        predecessors(RevisionStatus.DEPLOYED),
    )
    await update_deployment(connection, tenant_id, deployment_id, {"active_revision_id": revision_id})
    return await graph_ids_of(connection, tenant_id, revision_id)
