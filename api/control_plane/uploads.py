"""Uploading a project as a tarball (control plane contract §1.3)."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Path, Request, Response
from starlette.requests import ClientDisconnect

from api.authentication import CurrentCaller
from api.control_plane.schemas import UploadUrlReply
from api.control_plane.service import ControlPlane
from api.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    TooLargeError,
    UnavailableError,
)
from api.services import CurrentServices
from storage.ids import new_id
from storage.objects import ObjectStoreError, ObjectTooLargeError
from storage.uploads import announce_upload, find_upload_by_token, record_upload

router = APIRouter(tags=["Uploads (v2)"])
# Where tarballs are received: exempt from the general body limit, held to their own.
UPLOADS_PATH = "/v2/uploads/"

Token = Annotated[str, Path(max_length=200, pattern=r"^[A-Za-z0-9_-]+$")]


@router.post("/deployments/{deployment_id}/upload-url")
async def upload_url(
    services: CurrentServices,
    caller: CurrentCaller,
    deployment_id: UUID,
    _: Annotated[dict[str, Any] | None, Body()] = None,
) -> UploadUrlReply:
    """Where to PUT a project's tar.gz. The URL needs no key, works once, and for an hour."""
    deployment = await ControlPlane(services, caller).get(deployment_id)
    if deployment.deleted_at is not None:
        raise BadRequestError(f"Deployment {deployment_id} is being deleted.")
    if deployment.source != "internal_source":
        raise BadRequestError("upload-url is only available for 'internal_source' source deployments.")
    async with services.database.transaction() as connection:
        object_path, token = await announce_upload(connection, caller.tenant_id, deployment_id)
    return UploadUrlReply(
        upload_url=f"{services.settings.api_url}{UPLOADS_PATH}{token}",
        object_path=object_path,
        upload_headers={"Content-Type": "application/gzip"},
    )


@router.post("/deployments/{deployment_id}/push-token")
async def push_token(
    services: CurrentServices,
    caller: CurrentCaller,
    deployment_id: UUID,
    _: Annotated[dict[str, Any] | None, Body()] = None,
) -> None:
    """Credentials of the platform's image registry, which this installation does not have."""
    deployment = await ControlPlane(services, caller).get(deployment_id)
    if deployment.source != "internal_docker":
        raise BadRequestError("push-token is only available for 'internal_docker' source deployments.")
    raise BadRequestError(
        "This installation has no image registry: deploy from source (`langgraph deploy --remote`), or push to a"
        " registry of your own (`--push-to`) for a Kubernetes listener."
    )


@router.put("/uploads/{token}", include_in_schema=False)
async def receive(services: CurrentServices, token: Token, request: Request) -> Response:
    """Stream a tarball to the object store."""
    limit = services.settings.upload_limit_bytes
    async with services.database.connection() as connection:
        upload = await find_upload_by_token(connection, token, services.settings.upload_url_seconds)
    if upload is None:
        raise ForbiddenError("This upload URL is unknown or has expired: ask for a new one.")
    if upload.received_at is not None:
        raise ConflictError("This upload URL has been used: ask for a new one.")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise TooLargeError(f"The tarball is too large (limit: {limit} bytes).")
    key = f"{upload.object_path}.{new_id()}"
    try:
        size, sha256 = await services.objects.put(key, request.stream(), limit)
    except ObjectTooLargeError:
        raise TooLargeError(f"The tarball is too large (limit: {limit} bytes).") from None
    except ClientDisconnect:
        raise BadRequestError("The upload was cut off; repeat it.") from None
    except ObjectStoreError:
        raise UnavailableError("The object store cannot be reached; repeat the upload.") from None
    async with services.database.connection() as connection:
        recorded = size > 0 and await record_upload(connection, upload, key, size, sha256)
    if not recorded:
        await services.objects.delete(key)
        raise (
            BadRequestError("The upload was empty.")
            if size == 0
            else ConflictError("This upload URL has been used: ask for a new one.")
        )
    return Response(status_code=200)
