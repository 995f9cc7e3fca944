"""Export destinations (bulk export contract §1.1, rows 8 to 12)."""

from datetime import UTC
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Response

from api.authentication import Caller, CurrentCaller
from api.errors import BadRequestError, ConflictError, NotFoundError
from api.exports.plan import require_export_plan
from api.exports.schemas import (
    Credentials,
    DestinationConfig,
    DestinationCreate,
    DestinationResponse,
    DestinationUpdate,
)
from api.json_body import JsonRoute
from api.services import CurrentServices, Services
from storage.destinations import Destination, DestinationInUseError, Destinations
from storage.s3_destination import S3Destination
from storage.s3_probe import probe

router = APIRouter(route_class=JsonRoute)


@router.post("/destinations")
async def create_destination(
    body: DestinationCreate, caller: CurrentCaller, services: CurrentServices
) -> DestinationResponse:
    """Store a destination after writing a small object to it; 400 with the reason if that fails."""
    require_export_plan(caller)
    config = body.config.model_dump(mode="json")
    credentials = _credentials(services, body.credentials, body.aws_role_arn or body.config.aws_role_arn)
    _require_complete(body.config)
    await _require_writable(services, config, credentials)
    async with services.database.transaction() as connection:
        created = await Destinations(connection, caller.tenant_id).create(
            body.display_name, config, sorted(credentials), services.secrets.encrypt(credentials)
        )
    return _response(created)


@router.get("/destinations")
async def list_destinations(caller: CurrentCaller, services: CurrentServices) -> list[DestinationResponse]:
    """Newest first."""
    async with services.database.connection() as connection:
        found = await Destinations(connection, caller.tenant_id).all_destinations()
    return [_response(destination) for destination in found]


@router.get("/destinations/{destination_id}")
async def get_destination(
    destination_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> DestinationResponse:
    return _response(await _find(services, caller, destination_id))


@router.patch("/destinations/{destination_id}")
async def update_destination(
    destination_id: UUID, body: DestinationUpdate, caller: CurrentCaller, services: CurrentServices
) -> DestinationResponse:
    """Rotate the credentials, after the same check as on creation. Export runs in flight keep the old ones."""
    found = await _find(services, caller, destination_id)
    if body.credentials is None and body.aws_role_arn is None:
        return _response(found)
    credentials = _credentials(services, body.credentials, body.aws_role_arn)
    await _require_writable(services, found.config, credentials)
    async with services.database.transaction() as connection:
        updated = await Destinations(connection, caller.tenant_id).rotate(
            destination_id, sorted(credentials), services.secrets.encrypt(credentials)
        )
    return _response(_required(updated, destination_id))


@router.delete("/destinations/{destination_id}", status_code=204)
async def delete_destination(
    destination_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """409 while an export refers to it. Objects in the bucket stay."""
    async with services.database.transaction() as connection:
        try:
            deleted = await Destinations(connection, caller.tenant_id).delete(destination_id)
        except DestinationInUseError:
            raise ConflictError(
                f"Destination ID {destination_id} is still referenced by bulk exports."
            ) from None
    if not deleted:
        raise NotFoundError(_not_found(destination_id))
    return Response(status_code=204)


def _credentials(services: Services, given: Credentials | None, role: str | None) -> dict[str, str]:
    if role:
        raise _invalid(
            "aws_role_arn is not supported by this installation: send access_key_id and secret_access_key."
        )
    if given is not None:
        return {name: value for name, value in given.model_dump().items() if value}
    if not services.settings.export_ambient_credentials:
        raise _invalid(
            "Access denied: no credentials were given, and this installation lends its own to nobody"
            " (setting SLIPWAY_EXPORT_AMBIENT_CREDENTIALS)."
        )
    return {}


def _require_complete(config: DestinationConfig) -> None:
    if config.include_bucket_in_prefix and not config.bucket_name:
        raise _invalid("Bucket is not valid: bucket_name is missing.")
    if not config.include_bucket_in_prefix and not (config.endpoint_url and config.prefix.strip("/")):
        raise _invalid(
            "Invalid endpoint: with include_bucket_in_prefix off, endpoint_url must carry the bucket, and prefix"
            " must not be empty."
        )


async def _require_writable(services: Services, config: dict[str, Any], credentials: dict[str, str]) -> None:
    allowed = services.settings.allow_private_endpoints
    if failure := await probe(S3Destination(config, credentials, allowed)):
        raise _invalid(failure.reason)


def _invalid(reason: str) -> BadRequestError:
    return BadRequestError(f"Failed to validate S3 destination: {reason}")


async def _find(services: Services, caller: Caller, destination_id: UUID) -> Destination:
    async with services.database.connection() as connection:
        found = await Destinations(connection, caller.tenant_id).get(destination_id)
    return _required(found, destination_id)


def _required(found: Destination | None, destination_id: UUID) -> Destination:
    if found is None:
        raise NotFoundError(_not_found(destination_id))
    return found


def _not_found(destination_id: UUID) -> str:
    return f"Destination ID {destination_id} not found."


def _response(destination: Destination) -> DestinationResponse:
    return DestinationResponse(
        id=destination.id,
        tenant_id=destination.tenant_id,
        destination_type=destination.destination_type,
        display_name=destination.display_name,
        config=destination.config,
        credentials_keys=destination.credential_keys,
        created_at=destination.created_at.astimezone(UTC),
        updated_at=destination.updated_at.astimezone(UTC),
    )
