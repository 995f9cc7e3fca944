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
from storage.traces.changes import Attachment, RunChange

router = APIRouter(tags=["traces"])

_VALID_SECONDS = 3_600
_INLINE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "audio/", "video/", "text/plain")


async def store_attachments(services: Services, tenant_id: UUID, changes: Iterable[RunChange]) -> None:
    """Send every attachment that has no key yet to the object store.

    Raises:
        UnavailableError: the object store cannot be reached.
    """
    for change in changes:
        for attachment in change.attachments:
            if attachment.key is None:
                attachment.key = await store_attachment(services, tenant_id, change.run_id, attachment)


async def store_attachment(services: Services, tenant_id: UUID, owner: UUID, attachment: Attachment) -> str:
    """The key under which a file is now kept.

    Raises:
        UnavailableError: the object store cannot be reached.
    """
    key = f"attachments/{tenant_id}/{owner}/{new_id()}"

    async def chunks() -> AsyncIterator[bytes]:
        yield attachment.data

    try:
        await services.objects.put(key, chunks(), len(attachment.data))
    except ObjectStoreError:
        raise UnavailableError("The object store cannot be reached; nothing was stored, try again.") from None
    return key


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
