"""A deployment that is only described: for what the agent server does without a revision's worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from psycopg.types.json import Jsonb

from storage.assistants import ensure_system_assistants
from storage.database import Database
from storage.ids import new_id
from storage.scope import DeploymentScope
from tests.conftest import Workspace

BUILT_IN_LISTENER = UUID("00000000-0000-4000-8000-000000000001")


@dataclass(frozen=True)
class BareDeployment:
    """Its address, and the unmodified SDK on it."""

    scope: DeploymentScope
    name: str
    url: str
    sdk: LangGraphClient


@asynccontextmanager
async def bare_deployment(
    database: Database, workspace: Workspace, graph_ids: list[str], **description: Any
) -> AsyncIterator[BareDeployment]:
    """A deployment whose revision has the named graphs; runs of it wait for ever."""
    deployment_id, revision_id = new_id(), new_id()
    name = f"bare-{deployment_id.hex[-8:]}"
    graphs = [{"graph_id": graph_id} for graph_id in graph_ids]
    async with database.transaction() as connection:
        await connection.execute(
            "INSERT INTO deployments (id, tenant_id, name, source, status, listener_id, active_revision_id)"
            " VALUES (%s, %s, %s, 'internal_source', 'READY', %s, %s)",
            (deployment_id, workspace.tenant_id, name, BUILT_IN_LISTENER, revision_id),
        )
        await connection.execute(
            "INSERT INTO revisions (id, deployment_id, tenant_id, number, status, source, description)"
            " VALUES (%s, %s, %s, 1, 'DEPLOYED', 'internal_source', %s)",
            (revision_id, deployment_id, workspace.tenant_id, Jsonb({"graphs": graphs, **description})),
        )
        await ensure_system_assistants(connection, workspace.tenant_id, deployment_id, graph_ids)
    url = f"{workspace.api_url}/deployments/{name}"
    scope = DeploymentScope(workspace.tenant_id, deployment_id)
    async with get_client(url=url, api_key=workspace.api_key) as sdk:
        yield BareDeployment(scope, name, url, sdk)
