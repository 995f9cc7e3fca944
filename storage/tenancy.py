"""Workspaces and their API keys."""

import hashlib
import secrets as random_secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from storage.database import Connection
from storage.ids import new_id

KEY_PREFIX = "slw_"
KeyScope = Literal["workspace", "tracing"]


@dataclass(frozen=True)
class Tenant:
    tenant_id: UUID
    name: str
    plan: str


@dataclass(frozen=True)
class KeyHolder:
    """Who a valid key stands for. A `tracing` key may only write traces of its deployment's project."""

    key_id: UUID
    tenant: Tenant
    scope: KeyScope
    deployment_id: UUID | None


@dataclass(frozen=True)
class KeyRecord:
    """What is known of a key: not its text."""

    key_id: UUID
    name: str
    prefix: str
    scope: KeyScope
    created_at: datetime
    revoked_at: datetime | None


async def create_tenant(connection: Connection, name: str, plan: str = "enterprise") -> Tenant:
    """A new workspace on `plan` (developer, plus or enterprise)."""
    tenant_id = new_id()
    await connection.execute(
        "INSERT INTO tenants (id, name, plan) VALUES (%s, %s, %s)", (tenant_id, name, plan)
    )
    return Tenant(tenant_id, name, plan)


async def first_tenant(connection: Connection) -> Tenant | None:
    """The oldest workspace: the one that the first start made."""
    cursor = await connection.execute("SELECT id, name, plan FROM tenants ORDER BY created_at, id LIMIT 1")
    row = await cursor.fetchone()
    return Tenant(row["id"], row["name"], row["plan"]) if row else None


async def find_tenant(connection: Connection, tenant_id: UUID) -> Tenant | None:
    """The workspace of that id."""
    cursor = await connection.execute("SELECT id, name, plan FROM tenants WHERE id = %s", (tenant_id,))
    row = await cursor.fetchone()
    return Tenant(row["id"], row["name"], row["plan"]) if row else None


async def list_tenants(connection: Connection) -> list[Tenant]:
    """All workspaces, oldest first. For operators of the installation, never for a caller of the API."""
    cursor = await connection.execute("SELECT id, name, plan FROM tenants ORDER BY created_at, id")
    return [Tenant(row["id"], row["name"], row["plan"]) for row in await cursor.fetchall()]


async def create_key(
    connection: Connection,
    tenant_id: UUID,
    name: str,
    *,
    scope: KeyScope = "workspace",
    deployment_id: UUID | None = None,
) -> str:
    """A new key's text, which is stored nowhere: only its hash is."""
    text = KEY_PREFIX + random_secrets.token_urlsafe(32)
    await connection.execute(
        "INSERT INTO api_keys (id, tenant_id, name, key_hash, key_prefix, scope, deployment_id)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (new_id(), tenant_id, name, _hash(text), text[:8], scope, deployment_id),
    )
    return text


async def list_keys(connection: Connection, tenant_id: UUID) -> list[KeyRecord]:
    """Keys of a workspace, oldest first."""
    cursor = await connection.execute(
        "SELECT id, name, key_prefix, scope, created_at, revoked_at FROM api_keys"
        " WHERE tenant_id = %s ORDER BY created_at, id",
        (tenant_id,),
    )
    fields = ("id", "name", "key_prefix", "scope", "created_at", "revoked_at")
    return [KeyRecord(*(row[field] for field in fields)) for row in await cursor.fetchall()]


async def revoke_key(connection: Connection, tenant_id: UUID, key_id: UUID) -> bool:
    """Make a key invalid from now on; False if the workspace has no such valid key."""
    cursor = await connection.execute(
        "UPDATE api_keys SET revoked_at = now() WHERE tenant_id = %s AND id = %s AND revoked_at IS NULL",
        (tenant_id, key_id),
    )
    return cursor.rowcount == 1


async def find_key_holder(connection: Connection, text: str) -> KeyHolder | None:
    """Who holds the key `text`; None if nobody does or it was revoked."""
    cursor = await connection.execute(
        "SELECT k.id AS key_id, k.scope, k.deployment_id, t.id AS tenant_id, t.name, t.plan"
        " FROM api_keys k JOIN tenants t ON t.id = k.tenant_id"
        " WHERE k.key_hash = %s AND k.revoked_at IS NULL",
        (_hash(text),),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    tenant = Tenant(row["tenant_id"], row["name"], row["plan"])
    return KeyHolder(row["key_id"], tenant, row["scope"], row["deployment_id"])


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
