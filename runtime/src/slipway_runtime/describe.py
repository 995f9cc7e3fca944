"""What a revision's graphs look like: schemas, drawings, subgraphs (agent server contract §3.2)."""

import logging
import platform
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from typing import Any, get_type_hints

from pydantic import BaseModel, TypeAdapter, create_model
from temporalio import activity
from temporalio.exceptions import ApplicationError

from slipway_runtime import __version__
from slipway_runtime.auth import CustomAuth
from slipway_runtime.environment import mask_secrets
from slipway_runtime.graphs import Graph, Graphs
from slipway_runtime.http_app import CustomApp
from slipway_runtime.messages import DESCRIBE_REVISION, Description, GraphDescription
from slipway_runtime.project import GraphSource, ProjectError
from slipway_runtime.store import Stores
from slipway_runtime.user_loop import UserLoop

log = logging.getLogger(__name__)

_MAX_XRAY = 8
_MAX_ERROR = 8_000


class LoadedProject:
    """The project's graphs, or why there are none. Waits for nothing: loading is over when this exists."""

    def __init__(
        self,
        graphs: Graphs | None,
        error: str | None,
        stores: Stores | None = None,
        auth: CustomAuth | None = None,
        app: CustomApp | None = None,
    ) -> None:
        self.graphs = graphs
        self.error = error
        self.stores = stores
        self.auth = auth
        self.app = app


# Gives the project once it has been imported.
ProjectLoader = Callable[[], Awaitable[LoadedProject]]


class RevisionActivities:
    """Answers what the platform asks of exactly this revision."""

    def __init__(self, load: ProjectLoader, user_loop: UserLoop) -> None:
        self._load = load
        self._user_loop = user_loop

    @activity.defn(name=DESCRIBE_REVISION)
    async def describe(self) -> Description:
        """Every graph, compiled and described.

        Raises:
            ApplicationError: type ProjectError, not to be retried: the project does not load, with the reason.
        """
        project: LoadedProject = await self._load()
        if project.graphs is None:
            raise ApplicationError(project.error or "", type="ProjectError", non_retryable=True)
        try:
            return await self._user_loop.run(_describe(project.graphs, project.auth))
        except Exception as error:
            raise ApplicationError(error_text(error), type="ProjectError", non_retryable=True) from None


def error_text(error: BaseException) -> str:
    """What a person needs of an exception: a sentence, or the end of its traceback; no secret of this process."""
    if isinstance(error, ProjectError):
        return mask_secrets(str(error))[-_MAX_ERROR:]
    text = "".join(traceback.format_exception(error, limit=-12))
    return mask_secrets(text)[-_MAX_ERROR:]


async def _describe(graphs: Graphs, auth: CustomAuth | None) -> Description:
    options = graphs.project.options.for_platform()
    options["auth"]["rules"] = bool(auth and auth.rules)
    return Description(
        graphs=[await _describe_graph(graphs, source) for source in graphs.sources],
        langgraph_version=version("langgraph"),
        runtime_version=__version__,
        python_version=platform.python_version(),
        options=options,
    )


async def _describe_graph(graphs: Graphs, source: GraphSource) -> GraphDescription:
    config: Any = {"configurable": {"graph_id": source.graph_id}}
    async with graphs.open(source.graph_id, config) as graph:
        return GraphDescription(
            graph_id=source.graph_id,
            description=source.description,
            schemas=_schemas(graph),
            drawings=_drawings(graph),
            subgraphs={
                namespace: _schemas(subgraph) for namespace, subgraph in graph.get_subgraphs(recurse=True)
            },
        )


def _schemas(graph: Any) -> dict[str, Any]:
    builder = getattr(graph, "builder", None)
    return {
        "input": _schema_of(getattr(builder, "input_schema", None), graph.get_input_jsonschema),
        "output": _schema_of(getattr(builder, "output_schema", None), graph.get_output_jsonschema),
        "state": _schema_of(getattr(builder, "state_schema", None), graph.get_output_jsonschema),
        "config": _or_none(graph.get_config_jsonschema),
        "context": _schema_of(getattr(graph, "context_schema", None), graph.get_context_jsonschema),
    }


def _schema_of(kind: Any, otherwise: Callable[[], Any]) -> Any:
    """JSON schema of a state's type; pydantic refuses `typing.TypedDict` before Python 3.12, its hints do as well."""
    if not isinstance(kind, type):
        return _or_none(otherwise)
    for make in (
        lambda: TypeAdapter(kind).json_schema(),
        lambda: _model_of(kind).model_json_schema(),
        otherwise,
    ):
        if (schema := _or_none(make)) is not None:
            return schema
    return None


def _model_of(kind: type) -> type[BaseModel]:
    fields: dict[str, Any] = {name: (hint, None) for name, hint in get_type_hints(kind).items()}
    return create_model(kind.__name__, **fields)


def _drawings(graph: Graph) -> dict[str, Any]:
    drawings: dict[str, Any] = {}
    for depth in range(_MAX_XRAY + 1):
        drawing = _or_none(partial(_drawing, graph, depth))
        if drawing is None or (depth > 1 and drawing == drawings.get(str(depth - 1))):
            break
        drawings[str(depth)] = drawing
    return drawings


def _drawing(graph: Graph, xray: int) -> dict[str, Any]:
    drawing = graph.get_graph(xray=xray or False).to_json()
    nodes = []
    for node in drawing["nodes"]:
        data = node.get("data")
        name = data["name"] if isinstance(data, dict) and "name" in data else str(node["id"])
        nodes.append({"id": node["id"], "type": node.get("type", "runnable"), "data": {"name": name}})
    return {"nodes": nodes, "edges": drawing["edges"]}


def _or_none(make: Callable[[], Any]) -> Any:
    """A schema is a help, not a condition: user types that have none give null."""
    try:
        return make()
    except Exception as error:
        log.debug("not_described error=%s", type(error).__name__)
        return None
