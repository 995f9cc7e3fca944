"""Dependencies point one way; a user's project never meets our modules."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
OURS = {"api", "workflows", "activities", "storage", "stack", "worker", "settings", "slipway_runtime"}

# What the modules of a folder may import of ours (besides their own folder).
ALLOWED: dict[str, set[str]] = {
    "api": {"workflows.messages", "storage", "settings"},
    "workflows": {"workflows.messages"},
    "activities": {"storage", "workflows.messages", "settings"},
    "storage": {"settings"},
    "runtime/src/slipway_runtime": set(),
    "stack": {"api", "worker", "workflows.messages", "storage", "settings"},
}


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    """Full names of imported modules, with the line; `from a import b` counts as `a.b` too."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute in this house"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def _files(folder: str) -> list[Path]:
    return sorted((REPOSITORY / folder).rglob("*.py"))


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_point_in_the_allowed_direction(folder: str) -> None:
    own = folder.rpartition("/")[2]
    offences = [
        f"{path.relative_to(REPOSITORY)}:{line} imports {module}"
        for path in _files(folder)
        for module, line in _imports(path)
        if module.split(".")[0] in OURS
        and not any(_within(module, allowed) for allowed in {own, *ALLOWED[folder]})
    ]
    assert _files(folder)
    assert offences == []


def test_endpoints_contain_no_sql_and_no_temporal() -> None:
    """Endpoints parse, call and shape. `psycopg` is only for its error classes, in operators and error handlers."""
    forbidden = ("temporalio", "sqlalchemy", "alembic")
    offences = [
        f"{path.relative_to(REPOSITORY)}:{line} imports {module}"
        for path in _files("api")
        if path.name.startswith("endpoints") or path.parent.name == "endpoints"
        for module, line in _imports(path)
        if module.startswith(forbidden)
    ]
    offences += [
        f"{path.relative_to(REPOSITORY)}:{node.lineno} holds SQL"
        for path in _files("api")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.lstrip()
        .upper()
        .startswith(("SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "WITH "))
        and not _is_health_query(node.value)
    ]
    assert offences == []


def _is_health_query(text: str) -> bool:
    return text == "SELECT 1"


def test_workflows_do_no_input_or_output() -> None:
    forbidden = (
        "psycopg",
        "httpx",
        "fastapi",
        "pydantic",
        "orjson",
        "json",
        "random",
        "time",
        "os",
        "pathlib",
    )
    offences = [
        f"{path.relative_to(REPOSITORY)}:{line} imports {module}"
        for path in _files("workflows")
        for module, line in _imports(path)
        if module.split(".")[0] in forbidden
    ]
    assert offences == []


def test_only_storage_and_the_runtime_hold_sql() -> None:
    offences = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for folder in ("activities", "workflows")
        for path in _files(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.lstrip().upper().startswith(("SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM "))
    ]
    assert offences == []
