"""Creating and changing deployments: rows and workflow messages, together or not at all."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from api.control_plane import rules
from api.control_plane.records import CallersRecords
from api.control_plane.schemas import (
    DeploymentCreateRequest,
    DeploymentPatchRequest,
    RevisionRequest,
    RolloutRequest,
)
from api.control_plane.secrets import sealed
from api.errors import BadRequestError, ConflictError
from storage.database import Connection
from storage.deployment_removal import remove_deployment
from storage.deployments import (
    Deployment,
    NameTakenError,
    insert_deployment,
)
from storage.ids import new_id
from storage.listeners import BUILT_IN_LISTENER_ID, list_listeners
from storage.projects import ensure_project
from storage.revisions import Revision, get_revision, insert_revision, update_revision
from storage.uploads import find_upload
from storage.worker_roles import drop_role
from workflows.messages.rollout import (
    TERMINAL,
    DeleteDeployment,
    DeploymentStatus,
    InterruptRevision,
    RampStep,
    RevisionStatus,
    SubmitRevision,
)

_WAITS_FOR_SOURCE = (
    "Waits for its source: PUT the project's tar.gz to the address that POST upload-url returns,"
    " then PATCH source_revision_config.source_tarball_path."
)
# Parts of source_config that belong to a revision; the rest belongs to the deployment.
_REVISION_FIELDS = ("resource_spec", "install_command", "build_command")


@dataclass(frozen=True)
class ControlPlane(CallersRecords):
    """The operations of one caller. Every method raises `NotFoundError` for another workspace's ids."""

    async def create(self, request: DeploymentCreateRequest) -> Deployment:
        """A deployment with its first revision. A project that is yet to be uploaded leaves that one waiting.

        Raises:
            BadRequestError: a rule of `rules` is broken.
            ConflictError: the name is taken.
        """
        source_config = request.source_config.given()
        revision_config = request.source_revision_config.given()
        rules.check_creation(request.source, source_config, revision_config)
        if "source_tarball_path" in revision_config:
            raise BadRequestError(
                "'source_revision_config.source_tarball_path' must be an object_path that upload-url issued for"
                " this deployment: create the deployment first."
            )
        if request.secret_references and request.source != "external_docker":
            raise BadRequestError("'secret_references' are only valid for source 'external_docker'.")
        async with self.services.database.transaction() as connection:
            listener = rules.choose_listener(
                request.source, source_config, await list_listeners(connection, self.caller.tenant_id)
            )
            values = {
                "id": new_id(),
                "tenant_id": self.caller.tenant_id,
                "name": request.name,
                "source": request.source.value,
                "source_config": source_config,
                "source_revision_config": revision_config,
                "secrets": sealed(self.services.secrets, request.secrets, None),
                "secret_references": _references(request),
                "status": DeploymentStatus.AWAITING_DATABASE.value,
                "listener_id": listener.id if listener else BUILT_IN_LISTENER_ID,
                "tracer_session_id": await ensure_project(connection, self.caller.tenant_id, request.name),
                "shareable": request.shareable,
                "route_through_gateway": request.route_through_gateway,
            }
            try:
                deployment = await insert_deployment(connection, values)
            except NameTakenError:
                raise ConflictError(f"A deployment named '{request.name}' already exists.") from None
            return await self._add_revision(connection, deployment, request.source, None)

    async def patch(self, deployment_id: UUID, request: DeploymentPatchRequest) -> Deployment:
        """Change a deployment; what its workers depend on comes as a new revision.

        Raises:
            BadRequestError: an immutable field, a rule of `rules`, or a deployment that is being deleted.
        """
        async with self.services.database.transaction() as connection:
            deployment = await self._open_deployment(connection, deployment_id)
            rules.check_immutable(deployment, request)
            changes: dict[str, Any] = {
                field: getattr(request, field)
                for field in ("display_name", "route_through_gateway")
                if getattr(request, field) is not None
            }
            if request.deployment_tier:
                _check_tier(deployment, request.deployment_tier)
                changes["deployment_tier"] = request.deployment_tier.value
            if request.tracked_repo_ref:
                rules.check_revision_config(deployment.source, {"repo_ref": request.tracked_repo_ref})
                changes["source_config"] = {
                    **deployment.source_config,
                    "repo_branch": request.tracked_repo_ref,
                }
            if changes:
                deployment = await self._update(connection, deployment, changes)
            resized = request.deployment_tier is not None and deployment.active_revision_id is not None
            return await self._configure(connection, deployment, request, force=resized)

    async def create_revision(self, deployment_id: UUID, request: RevisionRequest) -> Revision:
        """A new revision, whatever changes.

        Raises:
            BadRequestError: a rule of `rules`, or a deployment that is being deleted.
        """
        async with self.services.database.transaction() as connection:
            deployment = await self._open_deployment(connection, deployment_id)
            deployment = await self._configure(connection, deployment, request, force=True)
            assert deployment.latest_revision_id is not None
            revision = await get_revision(
                connection, self.caller.tenant_id, deployment.id, deployment.latest_revision_id
            )
            assert revision is not None
            return revision

    async def redeploy(self, deployment_id: UUID, revision_id: UUID) -> Deployment:
        """Roll a revision out again from the build it has: a restart, or a rollback.

        Raises:
            BadRequestError: it has no build, or it is being rolled out.
        """
        async with self.services.database.transaction() as connection:
            deployment = await self._open_deployment(connection, deployment_id)
            revision = await self._revision(connection, deployment_id, revision_id)
            if revision.status not in TERMINAL:
                raise BadRequestError(f"Revision {revision_id} is being rolled out ({revision.status}).")
            if revision.build is None and revision.source in rules.BUILT_SOURCES:
                raise BadRequestError(
                    f"Revision {revision_id} has no build to deploy again ({revision.status}): create a revision."
                )
            await self._tell(
                deployment, SubmitRevision(str(revision.id), redeploy=True, limits=self._limits())
            )
            return deployment

    async def interrupt(self, deployment_id: UUID, revision_id: UUID) -> Revision:
        """Stop a revision that is not finished; the one that serves goes on.

        Raises:
            BadRequestError: it is finished.
        """
        async with self.services.database.transaction() as connection:
            deployment = await self._open_deployment(connection, deployment_id)
            revision = await self._revision(connection, deployment_id, revision_id)
            if revision.status in TERMINAL:
                raise BadRequestError(f"Revision {revision_id} is finished ({revision.status}).")
            await self._tell(deployment, InterruptRevision(str(revision.id)))
            return revision

    async def set_tiers(self, deployment_id: UUID, tiers: dict[str, str | None]) -> Deployment:
        """Change sizes; a deployment that serves gets a revision of the new size.

        Raises:
            BadRequestError: a size of the other kind, or a database size of a serverless deployment.
        """
        wanted = {column: tier for column, tier in tiers.items() if tier is not None}
        async with self.services.database.transaction() as connection:
            deployment = await self._open_deployment(connection, deployment_id)
            for column, tier in wanted.items():
                _check_tier(deployment, tier)
                if column == "database_tier" and not tier.startswith("DEDICATED"):
                    raise BadRequestError("'database_tier' can only be set for dedicated deployments.")
            deployment = await self._update(connection, deployment, wanted)
            return await self._configure(
                connection, deployment, RevisionRequest(), force=deployment.active_revision_id is not None
            )

    async def delete(self, deployment_id: UUID, *, delete_tracing_project: bool, force: bool) -> None:
        """Begin to tear a deployment down. `force`: forget one whose teardown does not end.

        Raises:
            BadRequestError: `force` on a deployment that was not deleted before.
        """
        async with self.services.database.transaction() as connection:
            deployment = await self._deployment(connection, deployment_id, lock=True)
            if force:
                if deployment.deleted_at is None:
                    raise BadRequestError(
                        f"Deployment {deployment_id} has not been deleted yet: delete it without 'force' first."
                    )
                await drop_role(connection, deployment.id)
                await remove_deployment(
                    connection, self.caller.tenant_id, deployment.id, with_project=delete_tracing_project
                )
                return
            if deployment.deleted_at is None:
                gone = {"status": DeploymentStatus.AWAITING_DELETE.value, "deleted_at": datetime.now(UTC)}
                deployment = await self._update(connection, deployment, gone)
            await self._tell(deployment, DeleteDeployment(delete_tracing_project))

    async def _configure(
        self, connection: Connection, deployment: Deployment, request: RevisionRequest, *, force: bool
    ) -> Deployment:
        """Apply a request's configuration, with a revision if a part of it needs one or `force` says so."""
        given = request.source_config.given() if request.source_config else {}
        revision_given = request.source_revision_config.given() if request.source_revision_config else {}
        source = request.revision_source.value if request.revision_source else deployment.source
        rules.check_source_config(deployment.source, given)
        rules.check_revision_config(source, revision_given)
        await self._check_tarball(connection, deployment, revision_given.get("source_tarball_path"))
        if request.secret_references and deployment.source != "external_docker":
            raise BadRequestError("'secret_references' are only valid for source 'external_docker'.")
        changes: dict[str, Any] = {}
        if given:
            changes["source_config"] = {**deployment.source_config, **given}
        if revision_given:
            changes["source_revision_config"] = {**deployment.source_revision_config, **revision_given}
        if request.secrets:
            changes["secrets"] = sealed(self.services.secrets, request.secrets, deployment.secrets)
        if request.secret_references is not None:
            changes["secret_references"] = _references(request)
        if changes:
            deployment = await self._update(connection, deployment, changes)
        needs_revision = bool(
            force
            or revision_given
            or request.secrets
            or request.secret_references is not None
            or any(field in given for field in _REVISION_FIELDS)
        )
        if not needs_revision:
            return deployment
        return await self._add_revision(connection, deployment, source, request.rollout)

    async def _add_revision(
        self, connection: Connection, deployment: Deployment, source: str, rollout: RolloutRequest | None
    ) -> Deployment:
        """The next revision from the deployment's configuration; one that still waits for its source is it."""
        missing = rules.missing_source(source, deployment.source_revision_config)
        values = {
            "source": source,
            "source_config": deployment.source_config,
            "source_revision_config": deployment.source_revision_config,
            "secrets": deployment.secrets,
            "secret_references": deployment.secret_references,
            "status_message": _WAITS_FOR_SOURCE if missing else None,
        }
        revision = await self._waiting_revision(connection, deployment)
        if revision:
            await update_revision(connection, self.caller.tenant_id, revision.id, values)
        else:
            owner = {"id": new_id(), "tenant_id": self.caller.tenant_id, "deployment_id": deployment.id}
            revision = await insert_revision(
                connection, {**owner, "status": RevisionStatus.CREATING.value, **values}
            )
        deployment = await self._update(connection, deployment, {"latest_revision_id": revision.id})
        message = None if missing else self._submission(revision, rollout)
        await self._tell(deployment, message)
        return deployment

    async def _waiting_revision(self, connection: Connection, deployment: Deployment) -> Revision | None:
        if deployment.latest_revision_id is None:
            return None
        latest = await get_revision(
            connection, self.caller.tenant_id, deployment.id, deployment.latest_revision_id
        )
        waits = (
            latest and latest.status == RevisionStatus.CREATING and latest.status_message == _WAITS_FOR_SOURCE
        )
        return latest if waits else None

    def _submission(self, revision: Revision, rollout: RolloutRequest | None) -> SubmitRevision:
        ramp = [RampStep(step.percent, step.pause_seconds) for step in rollout.steps] if rollout else []
        share = rollout.max_error_share if rollout else 0.1
        return SubmitRevision(str(revision.id), limits=self._limits(), ramp=ramp, ramp_max_error_share=share)

    async def _check_tarball(self, connection: Connection, deployment: Deployment, path: str | None) -> None:
        if path is None:
            return
        upload = await find_upload(connection, self.caller.tenant_id, deployment.id, path)
        if upload is None:
            raise BadRequestError(
                "'source_revision_config.source_tarball_path' must be an object_path that upload-url issued for"
                f" this deployment, not '{path}'."
            )
        if upload.received_at is None:
            raise BadRequestError(
                f"Nothing has been uploaded to '{path}' yet: PUT the tarball to its upload_url."
            )


def _references(request: DeploymentCreateRequest | RevisionRequest) -> list[dict[str, Any]] | None:
    if request.secret_references is None:
        return None
    return [reference.model_dump() for reference in request.secret_references]


def _check_tier(deployment: Deployment, tier: str) -> None:
    """Size may change, the kind may not."""
    dedicated = deployment.source_config.get("deployment_type") in ("prod", "dev")
    if tier.startswith("DEDICATED") != dedicated:
        kind = "dedicated" if dedicated else "serverless"
        raise BadRequestError(
            f"Deployment tier '{tier}' does not fit a {kind} deployment; its type cannot change."
        )
