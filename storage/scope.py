"""Whose rows a repository may touch: the tenant predicate, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import AsyncCursor
from psycopg.rows import DictRow

from storage.database import Connection


@dataclass(frozen=True)
class DeploymentScope:
    """One deployment of one tenant."""

    tenant_id: UUID
    deployment_id: UUID


class ScopedRepository:
    """Runs SQL whose text holds `{scope}` where the predicate of tenant and deployment belongs.

    A statement without `{scope}` is refused, so that none can forget it.
    """

    def __init__(self, connection: Connection, scope: DeploymentScope) -> None:
        self._connection = connection
        self.scope = scope

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, alias: str | None = None
    ) -> AsyncCursor[DictRow]:
        if "{scope}" not in statement:
            raise ValueError(f"Statement without tenant predicate: {statement}")
        prefix = f"{alias}." if alias else ""
        predicate = f"{prefix}deployment_id = %(deployment_id)s AND {prefix}tenant_id = %(tenant_id)s"
        text = statement.replace("{scope}", predicate)
        return await self._connection.execute(
            text.encode(),
            {
                **(parameters or {}),
                "tenant_id": self.scope.tenant_id,
                "deployment_id": self.scope.deployment_id,
            },
        )

    async def one(self, statement: str, parameters: Mapping[str, Any] | None = None) -> DictRow | None:
        return await (await self.execute(statement, parameters)).fetchone()

    async def all(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[DictRow]:
        return await (await self.execute(statement, parameters)).fetchall()


class TenantRepository:
    """Runs SQL whose text holds `{scope}` where the predicate of the tenant belongs; without it, it is refused."""

    def __init__(self, connection: Connection, tenant_id: UUID) -> None:
        self._connection = connection
        self.tenant_id = tenant_id

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> AsyncCursor[DictRow]:
        if "{scope}" not in statement:
            raise ValueError(f"Statement without tenant predicate: {statement}")
        text = statement.replace("{scope}", "tenant_id = %(tenant_id)s")
        return await self._connection.execute(
            text.encode(), {**(parameters or {}), "tenant_id": self.tenant_id}
        )

    async def one(self, statement: str, parameters: Mapping[str, Any] | None = None) -> DictRow | None:
        return await (await self.execute(statement, parameters)).fetchone()

    async def all(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[DictRow]:
        return await (await self.execute(statement, parameters)).fetchall()
