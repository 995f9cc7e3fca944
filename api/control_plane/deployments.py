"""Routes of deployments (control plane contract §1.1)."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from api.authentication import CurrentCaller
from api.control_plane.fields import DeploymentType, FilterText, Limit, Offset
from api.control_plane.schemas import (
    DeploymentCreateRequest,
    DeploymentPatchRequest,
    DeploymentReply,
    DeploymentsList,
    DeploymentTierRequest,
    FreeCount,
    ResourceTiersRequest,
)
from api.control_plane.service import ControlPlane
from api.control_plane.shapes import deployment_reply, deployment_url
from api.errors import InvalidError, NotFoundError
from api.json_response import OrjsonResponse
from api.services import CurrentServices, Services
from storage.deployments import Deployment, DeploymentFilter, count_deployments, list_deployments

DeploymentIds = Annotated[list[UUID], Query(min_length=1, max_length=100)]
router = APIRouter(prefix="/deployments", tags=["Deployments (v2)"])


@router.get("")
async def list_(
    services: CurrentServices,
    caller: CurrentCaller,
    limit: Limit = 20,
    offset: Offset = 0,
    name_contains: FilterText = None,
    name: FilterText = None,
    status: FilterText = None,
    remote_reconciled: bool | None = None,
    tag_value_ids: FilterText = None,
    image_version: FilterText = None,
    deployment_type: DeploymentType | None = None,
    deployment_ids: FilterText = None,
    url: FilterText = None,
) -> DeploymentsList:
    """List the workspace's deployments, newest first."""
    wanted = DeploymentFilter(
        name=name,
        name_contains=name_contains,
        status=status,
        remote_reconciled=remote_reconciled,
        deployment_type=deployment_type,
        deployment_ids=_ids("deployment_ids", deployment_ids),
        image_version=image_version,
        tag_value_ids=_ids("tag_value_ids", tag_value_ids),
    )
    if url is not None:
        named = _name_in(services, url)
        if named is None or name not in (None, named):
            return DeploymentsList(resources=[], offset=offset)
        wanted = DeploymentFilter(**{**vars(wanted), "name": named})
    async with services.database.connection() as connection:
        rows = await list_deployments(connection, caller.tenant_id, wanted, limit, offset)
    if url is not None:
        rows = [row for row in rows if _is_url_of(services, row, url.rstrip("/"))]
    return DeploymentsList(
        resources=[deployment_reply(services, row) for row in rows], offset=offset + len(rows)
    )


@router.post("", status_code=201)
async def create(
    services: CurrentServices, caller: CurrentCaller, request: DeploymentCreateRequest
) -> DeploymentReply:
    """Create a deployment and its first revision."""
    return deployment_reply(services, await ControlPlane(services, caller).create(request))


@router.get("/free-count")
async def free_count(services: CurrentServices, caller: CurrentCaller) -> FreeCount:
    """How many free deployments the workspace uses."""
    async with services.database.connection() as connection:
        return FreeCount(
            count=await count_deployments(connection, caller.tenant_id, ["dev_free", "dev_free_zero"])
        )


@router.get("/{deployment_id}")
async def get(services: CurrentServices, caller: CurrentCaller, deployment_id: UUID) -> DeploymentReply:
    """Get a deployment."""
    return deployment_reply(services, await ControlPlane(services, caller).get(deployment_id))


@router.patch("/{deployment_id}")
async def patch(
    services: CurrentServices, caller: CurrentCaller, deployment_id: UUID, request: DeploymentPatchRequest
) -> DeploymentReply:
    """Change a deployment; new code, secrets or resources make a revision."""
    return deployment_reply(services, await ControlPlane(services, caller).patch(deployment_id, request))


@router.delete("/{deployment_id}", status_code=204)
async def delete(
    services: CurrentServices,
    caller: CurrentCaller,
    deployment_id: UUID,
    delete_tracing_project: bool = False,
    force: bool = False,
) -> None:
    """Begin to tear a deployment down; it answers with status AWAITING_DELETE until it is gone."""
    await ControlPlane(services, caller).delete(
        deployment_id, delete_tracing_project=delete_tracing_project, force=force
    )


@router.delete("")
async def delete_many(
    services: CurrentServices, caller: CurrentCaller, deployment_ids: DeploymentIds
) -> OrjsonResponse:
    """Begin to tear several deployments down: 200 if all, 207 if some, 404 if none was found."""
    deleted: list[str] = []
    failed: list[dict[str, str]] = []
    for deployment_id in dict.fromkeys(deployment_ids):
        try:
            await ControlPlane(services, caller).delete(
                deployment_id, delete_tracing_project=False, force=False
            )
            deleted.append(str(deployment_id))
        except NotFoundError as error:
            failed.append({"deployment_id": str(deployment_id), "detail": error.detail})
    if not deleted:
        raise NotFoundError(failed[0]["detail"])
    return OrjsonResponse({"deleted": deleted, "failed": failed}, 207 if failed else 200)


@router.patch("/{deployment_id}/deployment-tier")
async def set_deployment_tier(
    services: CurrentServices, caller: CurrentCaller, deployment_id: UUID, request: DeploymentTierRequest
) -> DeploymentReply:
    """Change a deployment's size as a whole."""
    tiers = {"deployment_tier": request.deployment_tier.value, "compute_tier": request.deployment_tier.value}
    return deployment_reply(
        services, await ControlPlane(services, caller).set_tiers(deployment_id, {**tiers})
    )


@router.patch("/{deployment_id}/resource-tiers")
async def set_resource_tiers(
    services: CurrentServices, caller: CurrentCaller, deployment_id: UUID, request: ResourceTiersRequest
) -> DeploymentReply:
    """Change the sizes of workers and database; at least one must be given."""
    tiers = request.model_dump(mode="json")
    return deployment_reply(services, await ControlPlane(services, caller).set_tiers(deployment_id, tiers))


def _ids(field: str, text: str | None) -> list[UUID] | None:
    """Comma-separated ids.

    Raises:
        InvalidError: one of them is no UUID.
    """
    if text is None:
        return None
    try:
        return [UUID(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidError(f"'{field}' must be a comma-separated list of UUIDs.") from None


def _name_in(services: Services, url: str) -> str | None:
    """The deployment's name in a serving URL of ours."""
    base = deployment_url(services, "")
    return url.removeprefix(base).split("/")[0] or None if url.startswith(base) else None


def _is_url_of(services: Services, deployment: Deployment, url: str) -> bool:
    """Whether it is, with or without the deployment's own prefix."""
    name = deployment.name
    return url in (deployment_url(services, name), deployment_url(services, name, deployment.mount_prefix))
