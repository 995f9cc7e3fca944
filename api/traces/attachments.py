"""Attachments of runs and examples: kept in the object store, read through signed URLs that end (contract §5.5)."""

import time
from collections.abc import AsyncIterator, Iterable
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from api.errors import NotFoundError, UnavailableError
from api.services import CurrentServices, Services
from storage.ids import new_id
from storage.objects import ObjectMissingError, ObjectStoreError
from storage.secrets import UndecryptableSecretError
from storage.traces.changes import Attachment
from storage.traces.uploads import abandon_uploads, announce_uploads

router = APIRouter(tags=["traces"])

# Tracing SDKs wait 10 seconds for an answer, and a wait in the gate comes before this one.
CONNECTION_SECONDS = 4.0
_VALID_SECONDS = 3_600
_INLINE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "audio/", "video/", "text/plain")


async def upload(services: Services, tenant_id: UUID, files: Iterable[tuple[UUID, Attachment]]) -> list[str]:
    """Send attachments of runs or examples to the object store; returns the keys, which each then has.

    The transaction that stores the rows has to claim the keys (storage.traces.uploads), or the objects go again.

    Raises:
        UnavailableError: the object store cannot be reached.
    """
    given = list(files)
    if not given:
        return []
    for owner, attachment in given:
        attachment.key = f"attachments/{tenant_id}/{owner}/{new_id()}"
    keys = [attachment.key for _, attachment in given if attachment.key]
    async with services.database.connection(CONNECTION_SECONDS) as connection:
        await announce_uploads(connection, keys)
    try:
        for _, attachment in given:
            assert attachment.key is not None
            await services.objects.put_whole(attachment.key, attachment.data)
    except ObjectStoreError:
        await abandon(services, keys)
        raise UnavailableError("The object store cannot be reached; nothing was stored, try again.") from None
    return keys


async def abandon(services: Services, keys: list[str]) -> None:
    """Uploads whose rows were refused: the next sweep deletes them."""
    if keys:
        async with services.database.connection() as connection:
            await abandon_uploads(connection, keys)


def attachment_urls(services: Services, attachments: dict[str, Any] | None) -> dict[str, Any] | None:
    """`{"attachment.<name>": {presigned_url, mime_type}}`: paths relative to the API, valid for an hour."""
    if not attachments:
        return None
    until = int(time.time()) + _VALID_SECONDS
    return {
        f"attachment.{name}": {
            "presigned_url": _signed_path(services, file, until),
            "mime_type": file["mime_type"],
        }
        for name, file in attachments.items()
    }


def _signed_path(services: Services, file: dict[str, Any], until: int) -> str:
    grant = {"key": file["key"], "mime_type": file["mime_type"], "until": until}
    return f"{services.settings.api_url}/api/v1/attachments/{services.secrets.encrypt(grant).decode()}"


@router.get("/attachments/{token}")
async def read_attachment(token: str, services: CurrentServices) -> Response:
    """The file that a signed URL stands for. Needs no key: the URL is the permission, and it ends."""
    try:
        grant = services.secrets.decrypt(token.encode())
    except (UndecryptableSecretError, UnicodeEncodeError):
        raise NotFoundError("No such attachment.") from None
    if not isinstance(grant, dict) or not {"key", "until"} <= grant.keys() or grant["until"] < time.time():
        raise NotFoundError("This link has expired; read the run again for a new one.")
    try:
        chunks = services.objects.read(grant["key"])
        first = await anext(chunks, b"")
    except ObjectMissingError:
        raise NotFoundError("The attachment was deleted.") from None
    except ObjectStoreError:
        raise UnavailableError("The object store cannot be reached; try again.") from None

    async def body() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    mime_type = grant["mime_type"]
    shown = mime_type.startswith(_INLINE_TYPES)
    headers = {
        "Content-Disposition": "inline" if shown else "attachment",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return StreamingResponse(body(), media_type=mime_type, headers=headers)
