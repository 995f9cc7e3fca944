"""langgraph.json as the build reads it (agent server contract §7)."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

_LARGEST_BYTES = 1024 * 1024
_SUPPORTED = frozenset(
    "dependencies graphs env python_version store checkpointer auth http webhooks $schema api_version".split()  # noqa: SIM905
)
# Choices among things that a virtual environment does not have: nothing is lost by ignoring them.
_IGNORED = frozenset("image_distro pip_installer keep_pkg_tools".split())  # noqa: SIM905
_REFUSED = {
    "node_version": "JavaScript projects are not supported; remove it.",
    "dockerfile_lines": "revisions run in virtual environments, not in images; remove it.",
    "base_image": "revisions run in virtual environments, not in images; remove it.",
    "pip_config_file": "the listener's own package index settings apply; remove it.",
    "source": "uv workspaces are not supported; list the folders under `dependencies`.",
    "priority": "runs of a deployment are executed in order of receipt; remove it.",
    "encryption": "custom encryption is not supported; remove it.",
    "ui": "generative UI components are not supported; remove it.",
    "ui_config": "generative UI components are not supported; remove it.",
}
_PYTHON_VERSION = re.compile(r"3\.\d{1,2}")


class ProjectConfigError(Exception):
    """The project cannot be built; the message names the key or file and says why."""


@dataclass(frozen=True)
class ProjectConfig:
    """What the build needs of a langgraph.json."""

    path: Path
    dependencies: list[str]
    python_version: str | None
    ignored: list[str]


def read_project_config(project: Path, relative_path: str) -> ProjectConfig:
    """The configuration at `relative_path` of the unpacked `project`.

    Raises:
        ProjectConfigError: missing, not JSON, a key that is unknown or not supported, or a wrong value.
    """
    path = project / relative_path
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ProjectConfigError(f"{relative_path} is larger than {_LARGEST_BYTES} bytes.")
        raw = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ProjectConfigError(f"{relative_path} is not in the project.") from error
    except orjson.JSONDecodeError as error:
        raise ProjectConfigError(f"{relative_path} is not JSON: {error}.") from error
    if not isinstance(raw, dict):
        raise ProjectConfigError(f"{relative_path} must hold an object.")
    _check_keys(raw)
    _check_graphs(raw)
    return ProjectConfig(
        path=path,
        dependencies=_dependencies(raw, path.parent, project),
        python_version=_python_version(raw),
        ignored=sorted(key for key in raw if key in _IGNORED),
    )


def _check_keys(raw: dict[str, Any]) -> None:
    for key, value in raw.items():
        if key in _REFUSED:
            if value:
                raise ProjectConfigError(f"Key `{key}`: {_REFUSED[key]}")
        elif key not in _SUPPORTED and key not in _IGNORED:
            raise ProjectConfigError(
                f"Key `{key}` is not supported; known keys are {', '.join(sorted(_SUPPORTED))}."
            )


def _check_graphs(raw: dict[str, Any]) -> None:
    graphs = raw.get("graphs")
    if not isinstance(graphs, dict) or not graphs:
        raise ProjectConfigError('`graphs` must name at least one graph: {"agent": "./agent.py:graph"}.')
    for name, value in graphs.items():
        target = value.get("path") if isinstance(value, dict) else value
        if not isinstance(target, str) or ":" not in target:
            raise ProjectConfigError(
                f'`graphs.{name}` must be "path:object", for example "./agent.py:graph".'
            )
        if target.rpartition(":")[0].endswith((".ts", ".js", ".mts", ".mjs", ".tsx", ".jsx")):
            raise ProjectConfigError(f"`graphs.{name}`: JavaScript graphs are not supported.")


def _dependencies(raw: dict[str, Any], folder: Path, project: Path) -> list[str]:
    value = raw.get("dependencies", [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ProjectConfigError("`dependencies` must be a list of folders and package names.")
    for item in value:
        if is_local(item):
            target = (folder / item).resolve()
            if not target.is_relative_to(project.resolve()):
                raise ProjectConfigError(f"`dependencies`: '{item}' lies outside of the project.")
            if not target.is_dir():
                raise ProjectConfigError(f"`dependencies`: the project has no folder '{item}'.")
        elif item.startswith("-"):
            raise ProjectConfigError(f"`dependencies`: '{item}' is neither a folder nor a package.")
    return value


def is_local(dependency: str) -> bool:
    """Whether a dependency is a folder of the project rather than a package of an index."""
    return dependency.startswith((".", "/"))


def _python_version(raw: dict[str, Any]) -> str | None:
    value = raw.get("python_version")
    if value is None:
        return None
    if not isinstance(value, str) or not _PYTHON_VERSION.fullmatch(value):
        raise ProjectConfigError('`python_version` must be a minor version such as "3.11".')
    if int(value.split(".")[1]) < 11:
        raise ProjectConfigError(f"`python_version` {value} is too old; at least 3.11 is needed.")
    return value
