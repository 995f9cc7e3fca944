"""GET /docs and /openapi.json of a deployment (contract §3.1)."""

from typing import Any

from fastapi import Depends, FastAPI, Request

from api.agent_server.open_routes import open_deployment
from api.docs_page import docs_router
from api.json_response import OrjsonResponse
from api.services import CurrentServices


def install_openapi(app: FastAPI) -> None:
    """Routes that show `app`'s own description, with the deployment's graphs filled in."""
    app.include_router(docs_router("Agent server"), dependencies=[Depends(open_deployment)])

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request, services: CurrentServices) -> OrjsonResponse:
        deployment = await open_deployment(request, services)
        return OrjsonResponse(_described(app.openapi(), deployment.name, deployment.graph_ids))


def _described(document: dict[str, Any], name: str, graph_ids: list[str]) -> dict[str, Any]:
    """The document for one deployment: its address, and its graphs as the values that `graph_id` may have."""
    schemas = document["components"]["schemas"]
    filled = {
        title: _with_graphs(schema, graph_ids)
        for title, schema in schemas.items()
        if graph_ids and title.startswith("Assistant") and "graph_id" in schema.get("properties", {})
    }
    return {
        **document,
        "info": {**document["info"], "title": f"Agent server: {name}"},
        "servers": [{"url": f"/deployments/{name}"}],
        "components": {**document["components"], "schemas": {**schemas, **filled}},
    }


def _with_graphs(schema: dict[str, Any], graph_ids: list[str]) -> dict[str, Any]:
    known: dict[str, Any] = schema["properties"]["graph_id"]
    values: dict[str, Any] = {"type": "string", "enum": sorted(graph_ids)}
    nullable = {"anyOf": [values, {"type": "null"}]} if "anyOf" in known else values
    return {**schema, "properties": {**schema["properties"], "graph_id": {**nullable, "title": "Graph Id"}}}
