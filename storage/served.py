"""Deployments as the agent server sees them: what a revision described when it was deployed."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from storage.database import Connection
from storage.scope import DeploymentScope


@dataclass(frozen=True)
class ServedDeployment:
    """A deployment and its active revision; `revision_id` is None until the first revision is deployed."""

    scope: DeploymentScope
    name: str
    revision_id: UUID | None
    description: dict[str, Any]
    tracing_project_id: UUID | None
    # What the server adds to `config.configurable` of the runs that this very request creates.
    server_configurable: dict[str, Any] = field(default_factory=dict)
    # What the project's own authorization makes of this request: metadata that what it creates must carry, and
    # metadata that what it finds must have.
    stamped_metadata: dict[str, Any] = field(default_factory=dict)
    metadata_filter: dict[str, Any] = field(default_factory=dict)
    # Where in the store the request reads or writes in place of what it says: `namespace`, `key`.
    store_place: dict[str, Any] = field(default_factory=dict)

    def section(self, name: str) -> dict[str, Any]:
        """A section of the revision's langgraph.json that the platform acts on: auth, http, store, ..."""
        return (self.description.get("options") or {}).get(name) or {}

    def stamped(self, metadata: dict[str, Any] | None) -> dict[str, Any]:
        """Metadata of something that the request creates."""
        return {**(metadata or {}), **self.stamped_metadata}

    def narrowed(self, filters: dict[str, Any]) -> dict[str, Any]:
        """Filters of a search, with the metadata that everything it finds must have."""
        return {**filters, "metadata": {**(filters.get("metadata") or {}), **self.metadata_filter}}

    def permits(self, metadata: Any) -> bool:
        """Whether a row with this metadata may be seen by the request, as searches decide it in SQL."""
        return _contains(metadata, self.metadata_filter)

    @property
    def thread_ttl(self) -> dict[str, Any]:
        """Arguments of `Threads.create` for threads whose creator named no time to live (`checkpointer.ttl`)."""
        ttl = self.section("checkpointer").get("ttl") or {}
        if not ttl.get("default_ttl"):
            return {}
        return {"ttl_strategy": ttl.get("strategy") or "delete", "ttl_minutes": ttl["default_ttl"]}

    @property
    def mount_prefix(self) -> str:
        """Where below its address the agent server answers as well (`http.mount_prefix`); "" for nowhere."""
        prefix = self.section("http").get("mount_prefix")
        return prefix if isinstance(prefix, str) and prefix.startswith("/") else ""

    @property
    def user_id(self) -> str | None:
        """Identity of the user whom the project's own authentication recognised."""
        return self.server_configurable.get("langgraph_auth_user_id")

    @property
    def graph_ids(self) -> list[str]:
        return [graph["graph_id"] for graph in self.description.get("graphs", [])]

    def graph(self, graph_id: str) -> dict[str, Any] | None:
        """The stored `GraphDescription` of a graph, as a dict."""
        for graph in self.description.get("graphs", []):
            if graph["graph_id"] == graph_id:
                return dict(graph)
        return None


_SELECT = """
SELECT d.id, d.tenant_id, d.name, d.active_revision_id, d.tracer_session_id, r.description
FROM deployments d LEFT JOIN revisions r ON r.id = d.active_revision_id
WHERE d.name = %(name)s AND d.deleted_at IS NULL
"""


async def find_served(connection: Connection, tenant_id: UUID, name: str) -> ServedDeployment | None:
    """The tenant's deployment called `name`; None if it has none or it is being deleted."""
    cursor = await connection.execute(
        _SELECT + " AND d.tenant_id = %(tenant_id)s", {"name": name, "tenant_id": tenant_id}
    )
    row = await cursor.fetchone()
    return _served(row) if row else None


async def find_only_served(connection: Connection, name: str) -> ServedDeployment | None:
    """The deployment called `name` if exactly one workspace has it: for routes that need no key."""
    rows = await (await connection.execute(_SELECT + " LIMIT 2", {"name": name})).fetchall()
    return _served(rows[0]) if len(rows) == 1 else None


def _served(row: dict[str, Any]) -> ServedDeployment:
    return ServedDeployment(
        DeploymentScope(row["tenant_id"], row["id"]),
        row["name"],
        row["active_revision_id"],
        row["description"] or {},
        row["tracer_session_id"],
    )


def _contains(found: Any, wanted: Any) -> bool:
    """PostgreSQL's `jsonb @>`."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and _contains(found[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and all(
            any(_contains(item, value) for item in found) for value in wanted
        )
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)
