"""Calls of `uv`, each confined to what it has to change."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from activities.compute.sandbox import ProcessSandbox, interpreter_folders
from activities.subprocesses import ToolFailedError, installer_environment, run_tool

OnLine = Callable[[str], None]


@dataclass(frozen=True)
class BuildPlace:
    """What the code of one build may change: nothing in it is shared with another workspace.

    `home` is the revision's folder for files of its own, `cache` the workspace's for packages.
    """

    workspace: str
    project: Path
    environment: Path
    home: Path
    temporary: Path
    cache: Path
    on_line: OnLine

    def changeable(self) -> list[Path]:
        return [self.project, self.environment, self.home, self.temporary, self.cache]

    def open_cache(self) -> None:
        """Make the cache if there is none, and note that it is used: pruning spares what was used of late."""
        self.cache.mkdir(parents=True, exist_ok=True)
        os.utime(self.cache)

    def variables(self) -> dict[str, str]:
        """Of the environment, for tools that may run code of the project: no key of an index is among them."""
        return {
            **installer_environment(),
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "UV_CACHE_DIR": str(self.cache / "uv"),
            "PIP_CACHE_DIR": str(self.cache / "pip"),
        }


@dataclass(frozen=True)
class VirtualEnvironment:
    """A virtual environment, and the interpreter that it was made from, read before any code could change that."""

    folder: Path
    interpreter: Path

    @property
    def readable(self) -> list[Path]:
        """What the interpreter itself needs."""
        return [Path(folder) for folder in interpreter_folders(self.interpreter.parent.parent)]


class PackageInstaller:
    """`uv`, and the package cache of the listener's user, into which nothing but wheels of indexes comes."""

    def __init__(self, sandbox: ProcessSandbox) -> None:
        self._sandbox = sandbox
        self._uv = Path(sys.executable).with_name("uv")
        self._cache = Path(os.environ.get("UV_CACHE_DIR") or Path.home() / ".cache" / "uv")

    async def make_environment(
        self, folder: Path, python: str, cwd: Path, on_line: OnLine, *, relocatable: bool = False
    ) -> VirtualEnvironment:
        """An empty virtual environment. No code of a project runs."""
        options = ["--relocatable"] if relocatable else []
        await self._run_trusted(
            "venv", "--quiet", *options, "--python", python, str(folder), cwd=cwd, on_line=on_line
        )
        return VirtualEnvironment(folder, _interpreter_of(folder))

    async def build_wheel(self, source: Path, folder: Path, on_line: OnLine) -> None:
        """A wheel of the platform's own code."""
        await self._run_trusted(
            "build", "--quiet", "--wheel", "--out-dir", str(folder), str(source), cwd=folder, on_line=on_line
        )

    async def unpack(
        self,
        environment: VirtualEnvironment,
        what: list[str],
        cwd: Path,
        read: Iterable[Path],
        place: BuildPlace,
    ) -> None:
        """Install from wheels alone, by way of the shared cache; no code of a project or package runs.

        Raises:
            ToolFailedError: a package has no wheel, or cannot be had.
        """
        self._cache.mkdir(parents=True, exist_ok=True)
        await run_tool(
            [self._uv, "pip", "install", "--only-binary", ":all:", *_into(environment.folder), *what],
            cwd=cwd,
            environment={
                **_own_variables(),
                "TMPDIR": str(place.temporary),
                "UV_CACHE_DIR": str(self._cache),
            },
            on_line=place.on_line,
            policy=self._sandbox.policy(
                read=[self._uv, place.project, *environment.readable, *read],
                write=[environment.folder, place.temporary, self._cache],
            ),
        )

    async def build(
        self,
        environment: VirtualEnvironment,
        what: list[str],
        cwd: Path,
        read: Iterable[Path],
        place: BuildPlace,
    ) -> None:
        """Install what may have to be built first, by code of the project or its packages.

        Raises:
            ToolFailedError: something cannot be built or had.
        """
        place.open_cache()
        await run_tool(
            [self._uv, "pip", "install", *_into(environment.folder), *what],
            cwd=cwd,
            environment={**place.variables(), "NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_NO_CONFIG": "1"},
            on_line=place.on_line,
            policy=self._sandbox.policy(
                read=[self._uv, *environment.readable, *read],
                write=[environment.folder, *place.changeable()],
            ),
        )

    async def compile(self, environment: VirtualEnvironment, destined: Path, place: BuildPlace) -> None:
        """Bytecode for all modules: whoever uses the environment cannot write any. Nothing is imported."""
        folder = environment.folder
        command = [str(environment.interpreter), "-I", "-S", "-m", "compileall", "-qq", "-j0"]
        with contextlib.suppress(ToolFailedError):  # Some packages carry templates that are no valid modules.
            await run_tool(
                [*command, "-s", str(folder), "-p", str(destined), str(folder / "lib")],
                cwd=folder,
                environment=place.variables(),
                on_line=lambda _: None,
                policy=self._sandbox.policy(read=environment.readable, write=[folder, place.temporary]),
            )

    async def _run_trusted(self, *arguments: str, cwd: Path, on_line: OnLine) -> None:
        await run_tool([self._uv, *arguments], cwd=cwd, environment=_own_variables(), on_line=on_line)


def _interpreter_of(environment: Path) -> Path:
    lines = (environment / "pyvenv.cfg").read_text().splitlines()
    home = next(line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == "home")
    version = next((environment / "lib").glob("python3.*")).name
    return Path(home).resolve() / version


def _into(environment: Path) -> list[str]:
    return ["--python", str(environment / "bin" / "python")]


def _own_variables() -> dict[str, str]:
    return {
        **installer_environment(credentials=True),
        "HOME": str(Path.home()),
        "NO_COLOR": "1",
        "UV_NO_PROGRESS": "1",
        "UV_NO_CONFIG": "1",
    }
