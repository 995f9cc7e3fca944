"""Assistants (contract §3.2)."""

from typing import Any

import orjson
from fastapi import APIRouter, Response

from api.agent_server.assistant_schemas import (
    AssistantCreate,
    AssistantFilter,
    AssistantPart,
    AssistantPatch,
    AssistantSearch,
    AssistantVersion,
    LatestVersion,
    VersionSearch,
)
from api.agent_server.configuration import mirrored
from api.agent_server.deployment import CurrentDeployment
from api.agent_server.pagination import page_of
from api.agent_server.parameters import MAX_METADATA_BYTES, AssistantId, errors
from api.agent_server.schemas import Assistant
from api.agent_server.thread_removal import remove_threads_of_assistant
from api.errors import ConflictError, InvalidError, NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices
from storage.assistants import Assistants, system_assistant_id
from storage.served import ServedDeployment

router = APIRouter(prefix="/assistants", tags=["Assistants"], route_class=JsonRoute)


@router.post("", summary="Create an assistant", response_model=Assistant, responses=errors(400, 409))
async def create_assistant(
    body: AssistantCreate, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    _require_graph(deployment, body.graph_id)
    config, context = mirrored(body.config, body.context)
    fields: dict[str, Any] = {
        "graph_id": body.graph_id,
        "name": body.name or "Untitled",
        "description": body.description,
        "config": config,
        "context": context,
        "metadata": deployment.stamped(body.metadata),
    }
    if body.assistant_id:
        fields["assistant_id"] = body.assistant_id
    async with services.database.transaction() as connection:
        assistants = Assistants(connection, deployment.scope)
        row = await assistants.create(fields)
        if row is None and body.assistant_id and body.if_exists == "do_nothing":
            row = await assistants.get(body.assistant_id)
    if row is None:
        raise ConflictError(f"Assistant ID {body.assistant_id} already exists.")
    return row


@router.post(
    "/search",
    summary="Search assistants",
    response_model=None,
    responses={**errors(), 200: {"model": list[AssistantPart], "description": "A page of assistants."}},
)
async def search_assistants(
    body: AssistantSearch, deployment: CurrentDeployment, services: CurrentServices
) -> Response:
    _require_graph(deployment, body.graph_id)
    async with services.database.connection() as connection:
        rows = await Assistants(connection, deployment.scope).search(
            deployment.narrowed(body.model_dump(include={"metadata", "graph_id", "name"})),
            body.sort_by or "created_at",
            body.sort_order != "asc",
            body.limit + 1,
            body.offset,
        )
    return page_of(rows, body.limit, body.offset, body.select or tuple(Assistant.model_fields))


@router.post("/count", summary="Count assistants", responses=errors())
async def count_assistants(
    body: AssistantFilter, deployment: CurrentDeployment, services: CurrentServices
) -> int:
    async with services.database.connection() as connection:
        return await Assistants(connection, deployment.scope).count(deployment.narrowed(body.model_dump()))


@router.get("/{assistant_id}", summary="An assistant", response_model=Assistant, responses=errors())
async def get_assistant(
    assistant_id: AssistantId, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    async with services.database.connection() as connection:
        row = await Assistants(connection, deployment.scope).get(assistant_id)
    if row is None:
        raise _not_found(assistant_id)
    return row


@router.patch(
    "/{assistant_id}",
    summary="Change an assistant: a new version",
    response_model=Assistant,
    responses=errors(400),
)
async def update_assistant(
    assistant_id: AssistantId, body: AssistantPatch, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    _require_graph(deployment, body.graph_id)
    changes = body.model_dump(
        exclude_none=True, include={"graph_id", "name", "description"}, exclude_unset=True
    )
    if metadata := deployment.stamped(body.metadata):
        changes["metadata"] = metadata
    if body.config is not None or body.context is not None:
        changes["config"], changes["context"] = mirrored(body.config, body.context)
    async with services.database.transaction() as connection:
        row = await Assistants(connection, deployment.scope).update(assistant_id, changes)
        if row is None:
            raise _not_found(assistant_id)
        if len(orjson.dumps(row["metadata"])) > MAX_METADATA_BYTES:
            raise InvalidError(f"metadata: would be larger than {MAX_METADATA_BYTES} bytes after the merge")
    return row


@router.delete(
    "/{assistant_id}",
    summary="Delete an assistant; with delete_threads also the threads it ran on last",
    status_code=204,
    responses=errors(409),
)
async def delete_assistant(
    assistant_id: AssistantId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    delete_threads: bool = False,
) -> None:
    if assistant_id in {system_assistant_id(graph_id) for graph_id in deployment.graph_ids}:
        raise ConflictError(
            f"Assistant {assistant_id} stands for a graph of this deployment and cannot be deleted."
        )
    if delete_threads:
        await get_assistant(assistant_id, deployment, services)
        await remove_threads_of_assistant(services, deployment, assistant_id)
    async with services.database.connection() as connection:
        if not await Assistants(connection, deployment.scope).delete(assistant_id):
            raise _not_found(assistant_id)


@router.post(
    "/{assistant_id}/versions",
    summary="Versions of an assistant, newest first",
    response_model=None,
    responses={**errors(), 200: {"model": list[AssistantVersion], "description": "A page of versions."}},
)
async def list_versions(
    assistant_id: AssistantId, body: VersionSearch, deployment: CurrentDeployment, services: CurrentServices
) -> Response:
    async with services.database.connection() as connection:
        assistants = Assistants(connection, deployment.scope)
        if await assistants.get(assistant_id) is None:
            raise _not_found(assistant_id)
        rows = await assistants.versions(assistant_id, body.metadata or {}, body.limit + 1, body.offset)
    return page_of(rows, body.limit, body.offset, tuple(AssistantVersion.model_fields))


@router.post(
    "/{assistant_id}/latest",
    summary="Make a version the current one, its graph included",
    response_model=Assistant,
    responses=errors(),
)
async def set_latest_version(
    assistant_id: AssistantId, body: LatestVersion, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    async with services.database.connection() as connection:
        row = await Assistants(connection, deployment.scope).set_latest(assistant_id, body.version)
    if row is None:
        raise NotFoundError(f"Assistant {assistant_id} has no version {body.version}.")
    return row


def _require_graph(deployment: ServedDeployment, graph_id: str | None) -> None:
    if graph_id is not None and graph_id not in deployment.graph_ids:
        raise NotFoundError(f"Graph '{graph_id}' not found. Expected one of: {sorted(deployment.graph_ids)}")


def _not_found(assistant_id: AssistantId) -> NotFoundError:
    return NotFoundError(f"Assistant ID {assistant_id} not found.")
