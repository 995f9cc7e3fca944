"""The graphs of a project, loaded and ready to run."""

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime

from slipway_runtime.project import GraphSource, Project, ProjectError

Graph = Pregel[Any, Any, Any, Any]


class Graphs:
    """Loads each graph's module once; a factory is called for every run."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._objects: dict[str, Any] = {}

    @property
    def project(self) -> Project:
        return self._project

    @property
    def sources(self) -> list[GraphSource]:
        return self._project.graphs

    def load(self) -> None:
        """Import every graph's module. Runs user code.

        Raises:
            ProjectError: a module lacks the object, or the object is no graph. What an import raises is passed on.
        """
        for source in self._project.graphs:
            self._objects[source.graph_id] = _compiled(source, self._import(source))

    @contextlib.asynccontextmanager
    async def open(self, graph_id: str, config: RunnableConfig) -> AsyncIterator[Graph]:
        """The compiled graph for one run; a factory's context lasts as long.

        Raises:
            ProjectError: no such graph, or its factory made no graph.
        """
        if graph_id not in self._objects:
            known = ", ".join(source.graph_id for source in self.sources)
            raise ProjectError(f"This revision has no graph {graph_id!r}; it has: {known}.")
        found = self._objects[graph_id]
        if isinstance(found, Pregel):
            yield found
            return
        source = next(source for source in self.sources if source.graph_id == graph_id)
        async with contextlib.AsyncExitStack() as stack:
            yield _compiled(source, await _call_factory(found, config, stack), made=True)

    def _import(self, source: GraphSource) -> Any:
        return import_object(f"graphs.{source.graph_id}", source.module, source.name, self._project.folder)


def import_object(key: str, module: str, name: str, folder: Path) -> Any:
    """What langgraph.json names under `key`: the object `name` of a file of the project or of a module.

    Raises:
        ProjectError: there is no such file, or no such object in it. What an import raises is passed on.
    """
    found: Any = _import_module(key, module, folder)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ProjectError(f"`{key}`: {module} has no object {name!r}.")
        found = getattr(found, part)
    return found


def _import_module(key: str, source: str, folder: Path) -> ModuleType:
    if "/" not in source and not source.endswith(".py"):
        return importlib.import_module(source)
    path = (folder / source).resolve()
    if not path.is_file():
        raise ProjectError(f"`{key}`: there is no file {source}.")
    name = _module_name(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ProjectError(f"`{key}`: {source} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    # Known by its name before it runs: pickling and type hints look modules up.
    sys.modules[name] = module
    try:
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module_name(path: Path) -> str:
    """The dotted name under which other modules of the project import this file, or one of its own."""
    parts = [path.stem]
    parent = path.parent
    while (parent / "__init__.py").is_file():
        parts.insert(0, parent.name)
        parent = parent.parent
    if str(parent) in sys.path and (len(parts) > 1 or path.stem not in sys.modules):
        return ".".join(parts)
    return "slipway_project_" + "_".join(path.with_suffix("").parts[-3:]).replace("-", "_")


def _compiled(source: GraphSource, found: Any, *, made: bool = False) -> Any:
    if isinstance(found, StateGraph):
        return found.compile()
    if isinstance(found, Pregel) or (callable(found) and not made):
        return found
    raise ProjectError(
        f"`graphs.{source.graph_id}`: {source.name} is {type(found).__name__}, neither a graph nor a factory of one."
    )


async def _call_factory(
    factory: Callable[..., Any], config: RunnableConfig, stack: contextlib.AsyncExitStack
) -> Any:
    made = factory(*_arguments(factory, config))
    if inspect.isawaitable(made):
        made = await made
    if inspect.isasyncgen(made):
        made = contextlib.aclosing(made)
        return await anext(await stack.enter_async_context(made))
    if isinstance(made, contextlib.AbstractAsyncContextManager) and not isinstance(made, Pregel):
        return await stack.enter_async_context(made)
    if isinstance(made, contextlib.AbstractContextManager) and not isinstance(made, Pregel):
        return stack.enter_context(made)
    return made


def _arguments(factory: Callable[..., Any], config: RunnableConfig) -> list[Any]:
    """What a factory asks for: nothing, the run's config, or config and runtime, by position or by name."""
    parameters = [
        parameter
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    wanted = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty or parameter.name in _KNOWN
    ]
    return [_runtime(config) if "runtime" in parameter.name else config for parameter in wanted[:2]]


_KNOWN = ("config", "runtime")


def _runtime(config: RunnableConfig) -> Any:
    return Runtime(context=config.get("configurable", {}).get("__context__"))
