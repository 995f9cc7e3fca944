"""Sessions of the page: a token that only this installation can make or read, kept in a cookie."""

import time
from typing import Literal
from uuid import UUID

from starlette.responses import Response

from storage.secrets import SecretBox, UndecryptableSecretError

COOKIE = "slipway_chat"
SESSION_SECONDS = 30 * 86_400
LINK_SECONDS = 86_400
_MAX_TOKEN_CHARACTERS = 1_000

Purpose = Literal["chat-session", "chat-link"]


def make_token(secrets: SecretBox, purpose: Purpose, tenant_id: UUID, seconds: int) -> str:
    """A token that lets its bearer chat in the workspace for so long. It holds no API key."""
    value = {"purpose": purpose, "tenant_id": str(tenant_id), "expires_at": time.time() + seconds}
    return secrets.encrypt(value).decode()


def tenant_of_token(secrets: SecretBox, purpose: Purpose, token: str) -> UUID | None:
    """The workspace of a token that is valid now and was made for `purpose`; else None."""
    if len(token) > _MAX_TOKEN_CHARACTERS:
        return None
    try:
        value = secrets.decrypt(token.encode())
    except UndecryptableSecretError:
        return None
    if not isinstance(value, dict) or value.get("purpose") != purpose or value["expires_at"] < time.time():
        return None
    return UUID(value["tenant_id"])


def set_session(response: Response, secrets: SecretBox, tenant_id: UUID, *, secure: bool) -> None:
    """Scripts cannot read the cookie, and no other site's request carries it."""
    response.set_cookie(
        COOKIE,
        make_token(secrets, "chat-session", tenant_id, SESSION_SECONDS),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=secure,
    )
