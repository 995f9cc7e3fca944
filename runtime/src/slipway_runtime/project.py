"""langgraph.json: what a project says about itself (agent server contract §7)."""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway_runtime.options import OptionError, ProjectOptions, read_options

_GRAPH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TARGET = re.compile(r"(?P<module>.+):(?P<name>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)")
_ENV_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>.*)")


class ProjectError(Exception):
    """The project cannot be served; the message says which key or file is at fault, and why."""


@dataclass(frozen=True)
class GraphSource:
    """Where one graph of the project is: `module` is a path within the project or a dotted module name."""

    graph_id: str
    module: str
    name: str
    description: str | None = None


@dataclass(frozen=True)
class Project:
    """A parsed langgraph.json."""

    folder: Path
    graphs: list[GraphSource]
    dependencies: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    options: ProjectOptions = field(default_factory=ProjectOptions)

    def prepare_process(self) -> None:
        """Put the project's folders on the import path and its `env` into the environment.

        A variable that is set already stays: the platform's settings and the deployment's secrets win.
        """
        local = [
            self.folder / path for path in self.dependencies if path == "." or path.startswith((".", "/"))
        ]
        for folder in reversed([self.folder, *local]):
            for candidate in (folder, folder / "src"):
                if candidate.is_dir() and str(candidate) not in sys.path:
                    sys.path.insert(0, str(candidate))
        for name, value in self.env.items():
            os.environ.setdefault(name, value)


def read_project(path: Path) -> Project:
    """The project that the langgraph.json at `path` describes.

    Raises:
        ProjectError: the file is missing, not JSON, or a key of it is wrong.
    """
    try:
        raw = json.loads(path.read_text())
    except OSError as error:
        raise ProjectError(f"{path.name} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ProjectError(f"{path.name} is not JSON: {error}.") from error
    if not isinstance(raw, dict):
        raise ProjectError(f"{path.name} must hold an object, not {type(raw).__name__}.")
    try:
        options = read_options(raw)
    except OptionError as error:
        raise ProjectError(str(error)) from error
    return Project(
        folder=path.parent,
        graphs=_graphs(raw),
        dependencies=_strings(raw, "dependencies"),
        env=_env(raw, path.parent),
        options=options,
    )


def _graphs(raw: Mapping[str, Any]) -> list[GraphSource]:
    graphs = raw.get("graphs")
    if not isinstance(graphs, dict) or not graphs:
        raise ProjectError('`graphs` must name at least one graph: {"agent": "./agent.py:graph"}.')
    return [_graph(graph_id, value) for graph_id, value in graphs.items()]


def _graph(graph_id: str, value: Any) -> GraphSource:
    if not _GRAPH_ID.fullmatch(graph_id):
        raise ProjectError(
            f"`graphs`: the id {graph_id!r} may only hold letters, digits, dots, hyphens and underscores (128 at most)."
        )
    description = None
    if isinstance(value, dict):
        description = value.get("description")
        if description is not None and not isinstance(description, str):
            raise ProjectError(f"`graphs.{graph_id}.description` must be a text.")
        value = value.get("path")
    target = _TARGET.fullmatch(value) if isinstance(value, str) else None
    if target is None:
        raise ProjectError(
            f'`graphs.{graph_id}` must be "path:object", for example "./agent.py:graph"; it is {json.dumps(value)}.'
        )
    return GraphSource(graph_id, target["module"], target["name"], description)


def _strings(raw: Mapping[str, Any], key: str) -> list[str]:
    value = raw.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ProjectError(f"`{key}` must be a list of texts.")
    return value


def _env(raw: Mapping[str, Any], folder: Path) -> dict[str, str]:
    value = raw.get("env") or {}
    if isinstance(value, dict):
        if not all(isinstance(item, (str, int, float, bool)) for item in value.values()):
            raise ProjectError("`env` must map names to texts.")
        return {str(name): str(item) for name, item in value.items()}
    if not isinstance(value, str):
        raise ProjectError("`env` must be an object or the path of a .env file.")
    return _read_env_file(folder, value)


def _read_env_file(folder: Path, name: str) -> dict[str, str]:
    """A .env file, usually absent: it holds what stays on the developer's machine."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ProjectError(f"`env`: {name} lies outside of the project.")
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(f"`env`: {name} cannot be read: {error}.") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ENV_LINE.fullmatch(line.strip())
        if match is None:
            raise ProjectError(f"`env`: line {number} of {name} is not NAME=value.")
        found[match["name"]] = _unquoted(match["value"])
    return found


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text.split(" #", 1)[0].rstrip()
