"""Virtual environments of revisions, made by `uv`.

Two layers. The lower one holds the runtime and every package that the project asks for; it is named after the hash
of what was asked, and shared by all revisions that ask for the same. The upper one is a revision's own: it sees the
lower one, and has the project's own packages installed as editable.
"""

import asyncio
import hashlib
import re
import secrets as random_secrets
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import orjson

from activities.project_config import ProjectConfig, ProjectConfigError, is_local
from activities.subprocesses import inherited_environment, run_tool

_FORMAT = 1
_LARGEST_REQUIREMENTS_BYTES = 1024 * 1024
# Lines of a requirements file that refer to other files: their content then decides, too.
_REFERS_TO_FILES = re.compile(r"^\s*(-|\.|/|file:)|@\s*(\.|/|file:)", re.MULTILINE)

OnLine = Callable[[str], None]


class PythonEnvironments:
    """All environments of a listener, under `folder`."""

    def __init__(self, folder: Path, runtime: Path | None) -> None:
        self._folder = folder.resolve()
        self._runtime = runtime
        self._locks: dict[str, asyncio.Lock] = {}
        self._uv = Path(sys.executable).with_name("uv")

    async def prepare(self, config: ProjectConfig, project: Path, upper: Path, on_line: OnLine) -> Path:
        """The interpreter of a new environment at `upper` for an unpacked project.

        Raises:
            ToolFailedError: `uv` could not install what the project asks for.
            ProjectConfigError: a file that lists packages cannot be used.
        """
        lower = await self._lower(config, project, on_line)
        await self._run(
            "venv",
            "--quiet",
            "--python",
            await self._interpreter(config),
            str(upper),
            cwd=project,
            on_line=on_line,
        )
        _see(upper, lower)
        packages = [folder for folder in _local_folders(config) if _is_package(folder)]
        if packages:
            editable = [part for folder in packages for part in ("--editable", str(folder))]
            await self._install(upper, ["--no-deps", *editable], project, on_line)
        return upper / "bin" / "python"

    async def _lower(self, config: ProjectConfig, project: Path, on_line: OnLine) -> Path:
        interpreter = await self._interpreter(config)
        wheel = await self._runtime_wheel(on_line)
        arguments = _requirement_arguments(config)
        key = _key(interpreter, wheel, config, project)
        target = self._folder / "environments" / key
        async with self._locks.setdefault(key, asyncio.Lock()):
            if target.exists():
                on_line(f"Reusing the environment {key}: nothing that the project asks for has changed.")
                return target
            draft = target.with_name(f"{key}.{random_secrets.token_hex(4)}.draft")
            try:
                await self._run(
                    "venv",
                    "--quiet",
                    "--relocatable",
                    "--python",
                    interpreter,
                    str(draft),
                    cwd=project,
                    on_line=on_line,
                )
                await self._install(draft, [str(wheel), *arguments], config.path.parent, on_line)
                _put_in_place(draft, target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        return target

    async def _install(self, environment: Path, what: list[str], cwd: Path, on_line: OnLine) -> None:
        python = environment / "bin" / "python"
        await self._run("pip", "install", "--python", str(python), *what, cwd=cwd, on_line=on_line)

    async def _interpreter(self, config: ProjectConfig) -> str:
        """The listener's own interpreter, unless the project asks for another version; uv finds or fetches it."""
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        if config.python_version in (None, own):
            return sys.executable
        return config.python_version or own

    async def _runtime_wheel(self, on_line: OnLine) -> Path:
        """The runtime as a wheel: built once for each content of its folder."""
        source = self._runtime
        if source is None:
            raise ProjectConfigError("This listener has no runtime to install: set SLIPWAY_RUNTIME.")
        if source.suffix == ".whl":
            return source
        key = _tree_hash(source)
        folder = self._folder / "runtime" / key
        async with self._locks.setdefault(f"runtime-{key}", asyncio.Lock()):
            found = list(folder.glob("*.whl")) if folder.exists() else []
            if found:
                return found[0]
            draft = folder.with_name(f"{key}.{random_secrets.token_hex(4)}.draft")
            draft.mkdir(parents=True)
            try:
                await self._run(
                    "build",
                    "--quiet",
                    "--wheel",
                    "--out-dir",
                    str(draft),
                    str(source),
                    cwd=draft,
                    on_line=on_line,
                )
                _put_in_place(draft, folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        return next(folder.glob("*.whl"))

    async def _run(self, *arguments: str, cwd: Path, on_line: OnLine) -> None:
        environment = {
            **inherited_environment(),
            "HOME": str(Path.home()),
            "NO_COLOR": "1",
            "UV_NO_PROGRESS": "1",
            "UV_NO_CONFIG": "1",
        }
        await run_tool([self._uv, *arguments], cwd=cwd, environment=environment, on_line=on_line)


def _see(upper: Path, lower: Path) -> None:
    """Put the lower environment's packages behind the upper one's own, with the .pth files among them."""
    packages = next((lower / "lib").glob("python3.*")) / "site-packages"
    own = next((upper / "lib").glob("python3.*")) / "site-packages"
    (own / "_slipway_lower.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")


def _put_in_place(draft: Path, target: Path) -> None:
    """Rename; if somebody else was faster, theirs is as good."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft.rename(target)
    except OSError:
        if not target.exists():
            raise


def _local_folders(config: ProjectConfig) -> list[Path]:
    return [(config.path.parent / item).resolve() for item in config.dependencies if is_local(item)]


def _is_package(folder: Path) -> bool:
    """Whether a folder says how it is built; others are only put on the import path, by the runtime."""
    if (folder / "setup.py").is_file():
        return True
    return "build-system" in _pyproject(folder)


def _pyproject(folder: Path) -> dict[str, object]:
    path = folder / "pyproject.toml"
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProjectConfigError(f"{path.parent.name}/pyproject.toml cannot be read: {error}.") from error


def _requirement_files(folder: Path) -> list[Path]:
    """The files of a local folder that list packages, as `uv pip install -r` takes them."""
    found = [folder / "requirements.txt"]
    pyproject = _pyproject(folder)
    if "project" in pyproject or "build-system" in pyproject:
        found.append(folder / "pyproject.toml")
    elif (folder / "setup.py").is_file():
        found.append(folder / "setup.py")
    return [path for path in found if path.is_file()]


def _requirement_arguments(config: ProjectConfig) -> list[str]:
    files = [path for folder in _local_folders(config) for path in _requirement_files(folder)]
    packages = [item for item in config.dependencies if not is_local(item)]
    return [*packages, *(part for path in files for part in ("-r", str(path)))]


def _key(interpreter: str, wheel: Path, config: ProjectConfig, project: Path) -> str:
    """What decides about the content of the lower environment."""
    parts = [_FORMAT, interpreter, hashlib.sha256(wheel.read_bytes()).hexdigest()]
    parts += [item for item in config.dependencies if not is_local(item)]
    for folder in _local_folders(config):
        for path in _requirement_files(folder):
            if path.stat().st_size > _LARGEST_REQUIREMENTS_BYTES:
                raise ProjectConfigError(f"{path.name} is larger than {_LARGEST_REQUIREMENTS_BYTES} bytes.")
            text = path.read_text(errors="replace")
            parts.append(text)
            refers = path.name == "setup.py" or "sources" in text or "dynamic" in text
            if refers or (path.name == "requirements.txt" and _REFERS_TO_FILES.search(text)):
                parts.append(_tree_hash(project))
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:20]


def _tree_hash(folder: Path) -> str:
    """Of the names and contents of all files below `folder`."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:20]
