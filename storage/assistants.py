"""Assistants: configured instances of a deployment's graphs, with their versions."""

from typing import Any
from uuid import UUID, uuid4, uuid5

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.database import Connection
from storage.scope import ScopedRepository

# Part of the contract: ids of system assistants are the same on every server.
SYSTEM_NAMESPACE = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
COLUMNS = (
    "assistant_id, graph_id, name, description, config, context, metadata, version, created_at, updated_at"
)
SORT_COLUMNS = ("assistant_id", "created_at", "updated_at", "name", "graph_id")
# What tells them from those that users make.
SYSTEM_METADATA = {"created_by": "system"}


def is_system(metadata: dict[str, Any]) -> bool:
    """Whether everybody may run the assistant, whatever the project's own authorization says of others."""
    return metadata.get("created_by") == SYSTEM_METADATA["created_by"]


def system_assistant_id(graph_id: str) -> UUID:
    """Id of the assistant that every graph has (agent server contract §2)."""
    return uuid5(SYSTEM_NAMESPACE, graph_id)


async def ensure_system_assistants(
    connection: Connection, tenant_id: UUID, deployment_id: UUID, graph_ids: list[str]
) -> None:
    """One assistant per graph, made by the system; those of graphs that are gone stay for their threads."""
    for graph_id in graph_ids:
        parameters = {
            "assistant_id": system_assistant_id(graph_id),
            "deployment_id": deployment_id,
            "tenant_id": tenant_id,
            "graph_id": graph_id,
            "metadata": Jsonb(SYSTEM_METADATA),
        }
        cursor = await connection.execute(
            "INSERT INTO assistants (assistant_id, deployment_id, tenant_id, graph_id, name, metadata)"
            " VALUES (%(assistant_id)s, %(deployment_id)s, %(tenant_id)s, %(graph_id)s, %(graph_id)s,"
            " %(metadata)s) ON CONFLICT DO NOTHING",
            parameters,
        )
        if cursor.rowcount:
            await connection.execute(_KEEP_VERSION, parameters)


_KEEP_VERSION = """
INSERT INTO assistant_versions
    (deployment_id, assistant_id, version, graph_id, name, description, config, context, metadata)
SELECT deployment_id, assistant_id, version, graph_id, name, description, config, context, metadata
FROM assistants WHERE deployment_id = %(deployment_id)s AND assistant_id = %(assistant_id)s
"""


class Assistants(ScopedRepository):
    """Assistants of one deployment. Rows are dicts of `COLUMNS`."""

    async def create(self, fields: dict[str, Any]) -> DictRow | None:
        """The new assistant at version 1; None if its id is taken."""
        row = await self.one(
            "WITH given AS (SELECT 1 WHERE NOT EXISTS (SELECT FROM assistants"
            "   WHERE {scope} AND assistant_id = %(assistant_id)s))"
            " INSERT INTO assistants (deployment_id, tenant_id, assistant_id, graph_id, name, description, config,"
            " context, metadata)"
            " SELECT %(deployment_id)s, %(tenant_id)s, %(assistant_id)s, %(graph_id)s, %(name)s, %(description)s,"
            f" %(config)s, %(context)s, %(metadata)s FROM given ON CONFLICT DO NOTHING RETURNING {COLUMNS}",
            {"assistant_id": uuid4(), **_as_json(fields)},
        )
        if row:
            await self._keep_version(row["assistant_id"])
        return row

    async def get(self, assistant_id: UUID) -> DictRow | None:
        return await self.one(
            f"SELECT {COLUMNS} FROM assistants WHERE {{scope}} AND assistant_id = %(assistant_id)s",
            {"assistant_id": assistant_id},
        )

    async def update(self, assistant_id: UUID, changes: dict[str, Any]) -> DictRow | None:
        """A new version: metadata is merged, everything else replaced; None if there is no such assistant.

        Inside a transaction: versions are numbered one after another.
        """
        await self.one(
            "SELECT 1 FROM assistants WHERE {scope} AND assistant_id = %(assistant_id)s FOR UPDATE",
            {"assistant_id": assistant_id},
        )
        assignments = "".join(
            f", {column} = metadata || %(metadata)s" if column == "metadata" else f", {column} = %({column})s"
            for column in changes
        )
        row = await self.one(
            "UPDATE assistants SET updated_at = now(), version = 1 + (SELECT max(version) FROM assistant_versions v"
            " WHERE v.deployment_id = %(deployment_id)s AND v.assistant_id = %(assistant_id)s)"
            f"{assignments} WHERE {{scope}} AND assistant_id = %(assistant_id)s RETURNING {COLUMNS}",
            {"assistant_id": assistant_id, **_as_json(changes)},
        )
        if row:
            await self._keep_version(assistant_id)
        return row

    async def delete(self, assistant_id: UUID) -> bool:
        cursor = await self.execute(
            "DELETE FROM assistants WHERE {scope} AND assistant_id = %(assistant_id)s",
            {"assistant_id": assistant_id},
        )
        return cursor.rowcount == 1

    async def versions(
        self, assistant_id: UUID, metadata: dict[str, Any], limit: int, offset: int
    ) -> list[DictRow]:
        """Newest first."""
        return await self.all(
            "SELECT v.assistant_id, v.graph_id, v.name, v.description, v.config, v.context, v.metadata, v.version,"
            " v.created_at FROM assistant_versions v JOIN assistants USING (deployment_id, assistant_id)"
            " WHERE {scope} AND assistant_id = %(assistant_id)s AND v.metadata @> %(metadata)s"
            " ORDER BY v.version DESC LIMIT %(limit)s OFFSET %(offset)s",
            {"assistant_id": assistant_id, "metadata": Jsonb(metadata), "limit": limit, "offset": offset},
        )

    async def set_latest(self, assistant_id: UUID, version: int) -> DictRow | None:
        """Make an older version the current one, its graph included; None if there is no such version."""
        return await self.one(
            "UPDATE assistants SET version = v.version, graph_id = v.graph_id, name = v.name,"
            " description = v.description, config = v.config, context = v.context, metadata = v.metadata,"
            " updated_at = now() FROM assistant_versions v"
            " WHERE assistants.deployment_id = %(deployment_id)s AND v.deployment_id = assistants.deployment_id"
            " AND v.assistant_id = assistants.assistant_id AND v.version = %(version)s"
            " AND assistants.assistant_id = %(assistant_id)s AND assistants.assistant_id IN"
            " (SELECT assistant_id FROM assistants WHERE {scope})"
            f" RETURNING {', '.join('assistants.' + column for column in COLUMNS.split(', '))}",
            {"assistant_id": assistant_id, "version": version},
        )

    async def search(
        self, filters: dict[str, Any], sort_by: str, descending: bool, limit: int, offset: int
    ) -> list[DictRow]:
        """By metadata (containment), graph_id and name (substring, case-insensitive)."""
        assert sort_by in SORT_COLUMNS
        order = f"{sort_by} {'DESC' if descending else 'ASC'}, assistant_id"
        return await self.all(
            f"SELECT {COLUMNS} FROM assistants WHERE {{scope}}{_FILTER}"
            f" ORDER BY {order} LIMIT %(limit)s OFFSET %(offset)s",
            {**_filters(filters), "limit": limit, "offset": offset},
        )

    async def count(self, filters: dict[str, Any]) -> int:
        row = await self.one(f"SELECT count(*) FROM assistants WHERE {{scope}}{_FILTER}", _filters(filters))
        return int(row["count"]) if row else 0

    async def _keep_version(self, assistant_id: UUID) -> None:
        await self._connection.execute(
            _KEEP_VERSION, {"deployment_id": self.scope.deployment_id, "assistant_id": assistant_id}
        )


_FILTER = """
 AND metadata @> %(metadata)s
 AND (%(graph_id)s::text IS NULL OR graph_id = %(graph_id)s)
 AND (%(name)s::text IS NULL OR strpos(lower(name), lower(%(name)s)) > 0)
"""


def _filters(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": Jsonb(given.get("metadata") or {}),
        "graph_id": given.get("graph_id"),
        "name": given.get("name"),
    }


def _as_json(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: Jsonb(value) if isinstance(value, dict) else value for name, value in fields.items()}
