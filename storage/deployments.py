"""Deployments: their configuration, status, and which revision is the newest and which one serves."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from storage.database import Connection

_COLUMNS = (
    "id, tenant_id, name, display_name, source, source_config, source_revision_config, secrets, secret_references,"
    " status, deployment_tier, compute_tier, database_tier, shareable, route_through_gateway, listener_id,"
    " latest_revision_id, active_revision_id, tracer_session_id, worker_credentials, created_at, updated_at,"
    " deleted_at,"
    " (SELECT r.description #>> '{options,http,mount_prefix}' FROM revisions r"
    " WHERE r.id = deployments.active_revision_id AND r.tenant_id = deployments.tenant_id) AS mount_prefix"
)
_JSON = {"source_config", "source_revision_config", "secret_references"}


class NameTakenError(Exception):
    """The workspace has a deployment of that name already."""


@dataclass(frozen=True)
class Deployment:
    """A row of `deployments`. `secrets` and `worker_credentials` are encrypted.

    `mount_prefix`: what the revision that serves has as `http.mount_prefix`.
    """

    id: UUID
    tenant_id: UUID
    name: str
    display_name: str | None
    source: str
    source_config: dict[str, Any]
    source_revision_config: dict[str, Any]
    secrets: bytes | None
    secret_references: list[dict[str, Any]] | None
    status: str
    deployment_tier: str | None
    compute_tier: str | None
    database_tier: str | None
    shareable: bool
    route_through_gateway: bool
    listener_id: UUID
    latest_revision_id: UUID | None
    active_revision_id: UUID | None
    tracer_session_id: UUID | None
    worker_credentials: bytes | None
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    mount_prefix: str | None = None


@dataclass(frozen=True)
class DeploymentFilter:
    """What a list of deployments may be narrowed to; None: not at all (control plane contract §1.1)."""

    name: str | None = None
    name_contains: str | None = None
    status: str | None = None
    remote_reconciled: bool | None = None
    deployment_type: str | None = None
    deployment_ids: list[UUID] | None = None
    image_version: str | None = None
    tag_value_ids: list[UUID] | None = None


async def insert_deployment(connection: Connection, values: dict[str, Any]) -> Deployment:
    """A new deployment.

    Raises:
        NameTakenError: also while a deployment of that name is being deleted.
    """
    names = list(values)
    statement = (
        f"INSERT INTO deployments ({', '.join(names)}) VALUES ({', '.join(f'%({name})s' for name in names)})"
        f" RETURNING {_COLUMNS}"
    )
    try:
        cursor = await connection.execute(statement.encode(), _adapted(values))
    except UniqueViolation as error:
        raise NameTakenError(values["name"]) from error
    row = await cursor.fetchone()
    assert row is not None
    return Deployment(**row)


async def get_deployment(
    connection: Connection, tenant_id: UUID, deployment_id: UUID, *, lock: bool = False
) -> Deployment | None:
    """The deployment, also while it is being deleted. `lock` makes concurrent changes of it wait."""
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM deployments WHERE tenant_id = %s AND id = %s{' FOR UPDATE' if lock else ''}".encode(),
        (tenant_id, deployment_id),
    )
    row = await cursor.fetchone()
    return Deployment(**row) if row else None


async def update_deployment(
    connection: Connection, tenant_id: UUID, deployment_id: UUID, changes: dict[str, Any]
) -> Deployment | None:
    """Set columns; None if the workspace has no such deployment."""
    assignments = "".join(f"{name} = %({name})s, " for name in changes)
    cursor = await connection.execute(
        f"UPDATE deployments SET {assignments}updated_at = now()"
        f" WHERE tenant_id = %(tenant_id)s AND id = %(deployment_id)s RETURNING {_COLUMNS}".encode(),
        {**_adapted(changes), "tenant_id": tenant_id, "deployment_id": deployment_id},
    )
    row = await cursor.fetchone()
    return Deployment(**row) if row else None


async def list_deployments(
    connection: Connection, tenant_id: UUID, wanted: DeploymentFilter, limit: int, offset: int
) -> list[Deployment]:
    """Newest first."""
    conditions, parameters = _conditions(wanted)
    cursor = await connection.execute(
        f"SELECT {_COLUMNS} FROM deployments WHERE {' AND '.join(['tenant_id = %(tenant_id)s', *conditions])}"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s".encode(),
        {**parameters, "tenant_id": tenant_id, "limit": limit, "offset": offset},
    )
    return [Deployment(**row) for row in await cursor.fetchall()]


async def count_deployments(connection: Connection, tenant_id: UUID, deployment_types: list[str]) -> int:
    """How many deployments of these types the workspace has."""
    cursor = await connection.execute(
        "SELECT count(*) AS count FROM deployments"
        " WHERE tenant_id = %s AND source_config->>'deployment_type' = ANY(%s) AND deleted_at IS NULL",
        (tenant_id, deployment_types),
    )
    row = await cursor.fetchone()
    return int(row["count"]) if row else 0


def _conditions(wanted: DeploymentFilter) -> tuple[list[str], dict[str, Any]]:
    """SQL conditions and their parameters."""
    clauses = {
        "name": "name = %(name)s",
        "name_contains": "strpos(name, %(name_contains)s) > 0",
        "status": "status = %(status)s",
        "deployment_type": "source_config->>'deployment_type' = %(deployment_type)s",
        "deployment_ids": "id = ANY(%(deployment_ids)s)",
        # Nothing of ours is tagged, and the image of a deployment is the one of its newest revision.
        "image_version": "source_revision_config->>'image_uri' = %(image_version)s",
        "tag_value_ids": "cardinality(%(tag_value_ids)s::uuid[]) = 0",
        "remote_reconciled": "%(remote_reconciled)s"
        " = (SELECT l.tenant_id IS NOT NULL FROM listeners l WHERE l.id = listener_id)",
    }
    given = {name: getattr(wanted, name) for name in clauses if getattr(wanted, name) is not None}
    return [clauses[name] for name in given], given


def _adapted(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: Jsonb(value) if name in _JSON and value is not None else value for name, value in values.items()
    }
