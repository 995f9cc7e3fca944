"""Tarballs of projects: announced by `upload-url`, received once, named by a revision."""

import hashlib
import secrets as random_secrets
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.database import Connection
from storage.ids import new_id

_COLUMNS = "object_path, tenant_id, deployment_id, object_key, size_bytes, sha256, created_at, received_at"


@dataclass(frozen=True)
class Upload:
    """`object_key` names the object in the object store once it was received."""

    object_path: str
    tenant_id: UUID
    deployment_id: UUID
    object_key: str | None
    size_bytes: int | None
    sha256: str | None
    created_at: datetime
    received_at: datetime | None


async def announce_upload(connection: Connection, tenant_id: UUID, deployment_id: UUID) -> tuple[str, str]:
    """A new upload's object path, and the token that allows to send it; only the token's hash is stored."""
    token = random_secrets.token_urlsafe(32)
    object_path = f"uploads/{tenant_id}/{deployment_id}/{new_id()}.tar.gz"
    await connection.execute(
        "INSERT INTO uploads (object_path, tenant_id, deployment_id, token_hash) VALUES (%s, %s, %s, %s)",
        (object_path, tenant_id, deployment_id, _hash(token)),
    )
    return object_path, token


async def find_upload_by_token(connection: Connection, token: str, valid_seconds: float) -> Upload | None:
    """The upload that `token` allows; None if nobody was given it, or too long ago."""
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM uploads WHERE token_hash = %s"
        " AND created_at > now() - make_interval(secs => %s)".encode(),
        (_hash(token), valid_seconds),
    )
    row = await cursor.fetchone()
    return Upload(**row) if row else None


async def find_upload(
    connection: Connection, tenant_id: UUID, deployment_id: UUID, object_path: str
) -> Upload | None:
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM uploads WHERE tenant_id = %s AND deployment_id = %s AND object_path = %s".encode(),
        (tenant_id, deployment_id, object_path),
    )
    row = await cursor.fetchone()
    return Upload(**row) if row else None


async def record_upload(
    connection: Connection, upload: Upload, object_key: str, size_bytes: int, sha256: str
) -> bool:
    """Note that the object has arrived; False if another attempt came first."""
    cursor = await connection.execute(
        "UPDATE uploads SET object_key = %s, size_bytes = %s, sha256 = %s, received_at = now()"
        " WHERE tenant_id = %s AND object_path = %s AND received_at IS NULL",
        (object_key, size_bytes, sha256, upload.tenant_id, upload.object_path),
    )
    return cursor.rowcount == 1


async def object_keys(connection: Connection, tenant_id: UUID, deployment_id: UUID) -> list[str]:
    """Objects of a deployment's uploads."""
    cursor = await connection.execute(
        "SELECT object_key FROM uploads WHERE tenant_id = %s AND deployment_id = %s AND object_key IS NOT NULL",
        (tenant_id, deployment_id),
    )
    return [row["object_key"] for row in await cursor.fetchall()]


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
