"""Schemas, drawings and subgraphs of an assistant's graph (contract §3.2).

All answered from what the revision described when it was deployed: no worker needs to run.
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from api.agent_server.assistant_schemas import GraphDrawing, GraphSchemas
from api.agent_server.deployment import CurrentDeployment
from api.agent_server.parameters import AssistantId, Name, errors
from api.errors import NotFoundError
from api.services import CurrentServices, Services
from storage.assistants import Assistants, system_assistant_id
from storage.served import ServedDeployment

router = APIRouter(prefix="/assistants/{assistant_id}", tags=["Assistants"])

_MAX_DIGITS = 4
_SCHEMAS = ("input", "output", "state", "config", "context")


def _depth(value: Any) -> Any:
    """`true`, `false` or digits: pydantic alone would take 1 for true."""
    text = str(value).lower()
    if text in ("true", "false"):
        return text == "true"
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    raise PydanticCustomError("xray", "xray must be true, false or a number of levels")


Xray = Annotated[bool | int, BeforeValidator(_depth)]
AssistantOrGraph = Annotated[AssistantId | Name, Field(union_mode="left_to_right")]


@router.get("/graph", summary="Drawing of the graph", response_model=GraphDrawing, responses=errors())
async def get_graph(
    assistant_id: AssistantOrGraph,
    deployment: CurrentDeployment,
    services: CurrentServices,
    xray: Annotated[Xray, Query(description="Draw subgraphs: true for all, or so many levels.")] = False,
) -> Any:
    graph = await _graph_of(services, deployment, assistant_id)
    drawings: dict[str, Any] = graph.get("drawings") or {}
    if not drawings:
        return {"nodes": [], "edges": []}
    deepest = max(int(depth) for depth in drawings)
    wanted = (deepest if xray else 0) if isinstance(xray, bool) else xray
    return drawings[str(min(wanted, deepest))]


@router.get("/schemas", summary="JSON schemas of the graph", response_model=GraphSchemas, responses=errors())
async def get_schemas(
    assistant_id: AssistantId, deployment: CurrentDeployment, services: CurrentServices
) -> dict[str, Any]:
    graph = await _graph_of(services, deployment, assistant_id)
    return {"graph_id": graph["graph_id"], **_schemas(graph.get("schemas") or {})}


@router.get(
    "/subgraphs",
    summary="JSON schemas of the subgraphs, by namespace",
    response_model=dict[str, dict[str, Any]],
    responses=errors(),
)
async def get_subgraphs(
    assistant_id: AssistantId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    recurse: bool = False,
) -> dict[str, Any]:
    graph = await _graph_of(services, deployment, assistant_id)
    subgraphs: dict[str, Any] = graph.get("subgraphs") or {}
    return {name: _schemas(found) for name, found in subgraphs.items() if recurse or "|" not in name}


@router.get(
    "/subgraphs/{namespace}",
    summary="JSON schemas of one subgraph; an unknown one is empty",
    response_model=dict[str, dict[str, Any]],
    responses=errors(),
)
async def get_subgraph(
    assistant_id: AssistantId,
    namespace: str,
    deployment: CurrentDeployment,
    services: CurrentServices,
    recurse: bool = False,
) -> dict[str, Any]:
    graph = await _graph_of(services, deployment, assistant_id)
    subgraphs: dict[str, Any] = graph.get("subgraphs") or {}
    return {
        name: _schemas(found)
        for name, found in subgraphs.items()
        if name == namespace or (recurse and name.startswith(f"{namespace}|"))
    }


async def _graph_of(services: Services, deployment: ServedDeployment, given: UUID | str) -> dict[str, Any]:
    """The stored description of the graph of an assistant, which a graph's own name may stand for."""
    assistant_id = system_assistant_id(given) if isinstance(given, str) else given
    async with services.database.connection() as connection:
        assistant = await Assistants(connection, deployment.scope).get(assistant_id)
    if assistant is None:
        raise NotFoundError(f"Assistant {given} not found.")
    graph = deployment.graph(assistant["graph_id"])
    if graph is None:
        raise NotFoundError(f"The deployed revision has no graph '{assistant['graph_id']}'.")
    return graph


def _schemas(described: dict[str, Any]) -> dict[str, Any]:
    return {f"{kind}_schema": described.get(kind) for kind in _SCHEMAS}
