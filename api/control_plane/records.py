"""What every operation of the control plane needs: a caller's rows, and a word with their workflow."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from api.authentication import Caller
from api.control_plane.gateway import Message, tell_deployment
from api.errors import BadRequestError, NotFoundError
from api.services import Services
from storage.database import Connection
from storage.deployments import Deployment, get_deployment, update_deployment
from storage.revisions import Revision, get_revision
from workflows.messages.rollout import Limits, RolloutInput


@dataclass(frozen=True)
class CallersRecords:
    """Deployments and revisions of one caller. Every method raises `NotFoundError` for another workspace's ids."""

    services: Services
    caller: Caller

    async def get(self, deployment_id: UUID) -> Deployment:
        async with self.services.database.connection() as connection:
            return await self._deployment(connection, deployment_id)

    async def get_revision(self, deployment_id: UUID, revision_id: UUID) -> Revision:
        async with self.services.database.connection() as connection:
            await self._deployment(connection, deployment_id)
            return await self._revision(connection, deployment_id, revision_id)

    def _limits(self) -> Limits:
        settings = self.services.settings
        return Limits(
            settings.build_timeout_seconds,
            settings.probe_timeout_seconds,
            settings.drain_seconds,
            settings.listener_timeout_seconds,
        )

    async def _tell(self, deployment: Deployment, message: Message | None) -> None:
        start = RolloutInput(
            str(deployment.tenant_id), str(deployment.id), deployment.name, str(deployment.listener_id)
        )
        await tell_deployment(self.services.gateway, start, message)

    async def _open_deployment(self, connection: Connection, deployment_id: UUID) -> Deployment:
        """The deployment, locked, if it may be changed."""
        deployment = await self._deployment(connection, deployment_id, lock=True)
        if deployment.deleted_at is not None:
            raise BadRequestError(f"Deployment {deployment_id} is being deleted.")
        return deployment

    async def _deployment(
        self, connection: Connection, deployment_id: UUID, *, lock: bool = False
    ) -> Deployment:
        deployment = await get_deployment(connection, self.caller.tenant_id, deployment_id, lock=lock)
        if deployment is None:
            raise NotFoundError(f"Deployment ID {deployment_id} not found.")
        return deployment

    async def _revision(self, connection: Connection, deployment_id: UUID, revision_id: UUID) -> Revision:
        revision = await get_revision(connection, self.caller.tenant_id, deployment_id, revision_id)
        if revision is None:
            raise NotFoundError(f"Revision ID {revision_id} not found.")
        return revision

    async def _update(
        self, connection: Connection, deployment: Deployment, changes: dict[str, Any]
    ) -> Deployment:
        updated = await update_deployment(connection, self.caller.tenant_id, deployment.id, changes)
        assert updated is not None
        return updated
