"""Virtual environments of revisions, made by `uv`.

Two layers. The lower one holds the runtime and every package that the project asks for; it is named after the hash
of what was asked, and shared by all revisions that ask for the same. The upper one is a revision's own: it sees the
lower one, and has the project's own packages installed as editable.

Code that comes with a project or a package never runs with write access to anything that workspaces share. What is
shared is made of wheels alone, which are unpacked without running anything. Where something has to be built, it is
built with a package cache of the workspace's own, into a lower layer of the workspace's own.
"""

import asyncio
import hashlib
import os
import re
import secrets as random_secrets
import sys
import tomllib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from activities.package_installer import BuildPlace, OnLine, PackageInstaller, VirtualEnvironment
from activities.project_config import ProjectConfig, ProjectConfigError, is_local
from activities.removal import remove_tree
from activities.subprocesses import ToolFailedError

_FORMAT = 2
_LARGEST_REQUIREMENTS_BYTES = 1024 * 1024
# Lines of a requirements file that refer to other files: their content then decides, too.
_REFERS_TO_FILES = re.compile(r"^\s*(-|\.|/|file:)|@\s*(\.|/|file:)", re.MULTILINE)

_Install = Callable[[VirtualEnvironment, list[str], Path, list[Path], BuildPlace], Awaitable[None]]


@dataclass(frozen=True)
class RevisionEnvironment:
    """The upper environment of a revision, the lower one behind it, and where their interpreter is installed."""

    upper: VirtualEnvironment
    lower: Path

    @property
    def python(self) -> Path:
        return self.upper.folder / "bin" / "python"

    @property
    def readable(self) -> list[Path]:
        """What whoever uses the environment has to read besides its own folder."""
        return [self.lower, *self.upper.readable]


class PythonEnvironments:
    """All environments of a listener, under `folder`."""

    def __init__(self, folder: Path, runtime: Path | None, installer: PackageInstaller) -> None:
        self._folder = folder.resolve()
        self._runtime = runtime
        self._installer = installer
        self._locks: dict[str, asyncio.Lock] = {}

    async def prepare(self, config: ProjectConfig, place: BuildPlace) -> RevisionEnvironment:
        """A new environment for an unpacked project.

        Raises:
            ToolFailedError: `uv` could not install what the project asks for.
            ProjectConfigError: a file that lists packages cannot be used.
        """
        packages = [folder for folder in _local_folders(config) if _is_package(folder)]
        lower = await self._lower(config, place)
        upper = await self._installer.make_environment(
            place.environment, self._interpreter(config), place.project, place.on_line
        )
        _see(upper.folder, lower)
        if packages:
            editable = [part for folder in packages for part in ("--editable", str(folder))]
            await self._installer.build(upper, ["--no-deps", *editable], place.project, [lower], place)
        return RevisionEnvironment(upper, lower)

    async def _lower(self, config: ProjectConfig, place: BuildPlace) -> Path:
        interpreter = self._interpreter(config)
        wheel = await self._runtime_wheel(place.on_line)
        key = _key(interpreter, wheel, config, place.project)
        shared = self._folder / "environments" / key
        own = shared.with_name(f"{key}-{place.workspace}")
        async with self._locks.setdefault(key, asyncio.Lock()):
            for found in (shared, own):
                if found.exists():
                    # Pruning spares what was used of late.
                    os.utime(found)
                    place.on_line(
                        f"Reusing the environment {key}: nothing that the project asks for has changed."
                    )
                    return found
            what = [str(wheel), *_requirement_arguments(config)]
            lines: list[str] = []
            quiet = replace(place, on_line=lines.append)
            try:
                await self._make_lower(shared, interpreter, self._installer.unpack, what, config, quiet)
            except ToolFailedError:
                place.on_line("Not all packages are to be had as wheels: building for this workspace alone.")
                await self._make_lower(own, interpreter, self._installer.build, what, config, place)
                return own
            for line in lines:
                place.on_line(line)
        return shared

    async def discard(self, lower: Path, used_before: float) -> bool:
        """Remove a lower environment, unless a build has used it since; whether it was removed."""
        async with self._locks.setdefault(lower.name.partition("-")[0], asyncio.Lock()):
            doomed = _set_aside(lower, used_before)
        if doomed is None:
            return False
        await asyncio.to_thread(remove_tree, doomed)
        return True

    async def _make_lower(
        self,
        target: Path,
        interpreter: str,
        install: _Install,
        what: list[str],
        config: ProjectConfig,
        place: BuildPlace,
    ) -> None:
        """Made aside and renamed, so that what is there is whole."""
        draft = target.with_name(f"{target.name}.{random_secrets.token_hex(4)}.draft")
        try:
            made = await self._installer.make_environment(
                draft, interpreter, place.project, place.on_line, relocatable=True
            )
            await install(made, what, config.path.parent, [Path(what[0])], place)
            await self._installer.compile(made, target, place)
            _put_in_place(draft, target)
        finally:
            await asyncio.to_thread(remove_tree, draft)

    def _interpreter(self, config: ProjectConfig) -> str:
        """The listener's own interpreter, unless the project asks for another version; uv finds or fetches it."""
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        if config.python_version in (None, own):
            return str(getattr(sys, "_base_executable", sys.executable))
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
                await self._installer.build_wheel(source, draft, on_line)
                _put_in_place(draft, folder)
            finally:
                await asyncio.to_thread(remove_tree, draft)
        return next(folder.glob("*.whl"))


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


def _set_aside(lower: Path, used_before: float) -> Path | None:
    """Renamed, so that no half of it is ever taken for an environment."""
    if not lower.exists() or lower.stat().st_mtime >= used_before:
        return None
    doomed = lower.with_name(f"{lower.name}.{random_secrets.token_hex(4)}.draft")
    lower.rename(doomed)
    return doomed


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
            static = path.name == "requirements.txt" or "project" in _pyproject(folder)
            refers = not static or "sources" in text or "dynamic" in text
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
