"""Legacy v1 routes that clients still use: a project is a deployment (control plane contract §1.8)."""

from uuid import UUID

from fastapi import APIRouter, Response

from api.authentication import CurrentCaller
from api.control_plane.service import ControlPlane
from api.services import CurrentServices

router = APIRouter(prefix="/projects/{project_id}", tags=["Projects (v1)"])


@router.post("/revisions/{revision_id}/interrupt")
async def interrupt(
    services: CurrentServices, caller: CurrentCaller, project_id: UUID, revision_id: UUID
) -> Response:
    """Stop a revision that is not finished."""
    await ControlPlane(services, caller).interrupt(project_id, revision_id)
    return Response(status_code=204)


@router.post("/revisions/{revision_id}/deploy")
async def deploy(
    services: CurrentServices, caller: CurrentCaller, project_id: UUID, revision_id: UUID
) -> Response:
    """Deploy a revision again without building it."""
    await ControlPlane(services, caller).redeploy(project_id, revision_id)
    return Response(status_code=204)
