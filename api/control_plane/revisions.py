"""Routes of revisions (control plane contract §1.2)."""

from uuid import UUID

from fastapi import APIRouter

from api.authentication import CurrentCaller
from api.control_plane.fields import FilterText, Limit, Offset
from api.control_plane.schemas import DeploymentReply, RevisionReply, RevisionRequest, RevisionsList
from api.control_plane.service import ControlPlane
from api.control_plane.shapes import deployment_reply, revision_reply
from api.errors import InvalidError
from api.services import CurrentServices
from storage.revisions import list_revisions
from workflows.messages.rollout import RevisionStatus

router = APIRouter(prefix="/deployments/{deployment_id}/revisions", tags=["Revisions (v2)"])


@router.get("")
async def list_(
    services: CurrentServices,
    caller: CurrentCaller,
    deployment_id: UUID,
    limit: Limit = 20,
    offset: Offset = 0,
    status: FilterText = None,
    remote_reconciled: bool | None = None,
) -> RevisionsList:
    """List a deployment's revisions, newest first."""
    statuses = _statuses(status)
    deployment = await ControlPlane(services, caller).get(deployment_id)
    if remote_reconciled is not None and remote_reconciled != ("listener_id" in deployment.source_config):
        return RevisionsList(resources=[], offset=offset)
    async with services.database.connection() as connection:
        rows = await list_revisions(
            connection, caller.tenant_id, deployment_id, statuses=statuses, limit=limit, offset=offset
        )
    return RevisionsList(resources=[revision_reply(row) for row in rows], offset=offset + len(rows))


@router.post("", status_code=201)
async def create(
    services: CurrentServices, caller: CurrentCaller, deployment_id: UUID, request: RevisionRequest
) -> RevisionReply:
    """Create a revision; what is left out is inherited from the one before."""
    return revision_reply(await ControlPlane(services, caller).create_revision(deployment_id, request))


@router.get("/{revision_id}")
async def get(
    services: CurrentServices, caller: CurrentCaller, deployment_id: UUID, revision_id: UUID
) -> RevisionReply:
    """Get a revision."""
    return revision_reply(await ControlPlane(services, caller).get_revision(deployment_id, revision_id))


@router.post("/{revision_id}/redeploy")
async def redeploy(
    services: CurrentServices, caller: CurrentCaller, deployment_id: UUID, revision_id: UUID
) -> DeploymentReply:
    """Deploy a revision again without building it: a restart, or a rollback to an older one."""
    return deployment_reply(
        services, await ControlPlane(services, caller).redeploy(deployment_id, revision_id)
    )


@router.post("/{revision_id}/interrupt")
async def interrupt(
    services: CurrentServices, caller: CurrentCaller, deployment_id: UUID, revision_id: UUID
) -> RevisionReply:
    """Stop a revision that is not finished. An addition of this platform: the contract has it under v1 only."""
    return revision_reply(await ControlPlane(services, caller).interrupt(deployment_id, revision_id))


def _statuses(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in names if name not in RevisionStatus.__members__]
    if unknown:
        raise InvalidError(f"Unknown revision status '{unknown[0]}': one of {', '.join(RevisionStatus)}.")
    return names
