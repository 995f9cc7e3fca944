"""Environments of revisions: what workspaces share, and what they must not."""

import subprocess
from pathlib import Path

import pytest

from activities.compute.sandbox import ProcessSandbox
from activities.package_installer import BuildPlace, PackageInstaller
from activities.project_config import read_project_config
from activities.python_environment import PythonEnvironments, RevisionEnvironment
from settings import Settings
from tests.control_plane.projects import config

# Builds a wheel of one module without anything from an index.
_BACKEND = """
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(folder + "/NAME-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("NAME.py", open("module.py").read())
        wheel.writestr("NAME-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: NAME\\nVersion: 1\\n")
        wheel.writestr("NAME-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("NAME-1.dist-info/RECORD", "")
    return "NAME-1-py3-none-any.whl"

build_editable = build_wheel
"""


def _package(folder: Path, name: str, module: str, project: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "backend.py").write_text(_BACKEND.replace("NAME", name))
    (folder / "module.py").write_text(module)
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(project + system)
    return folder


class _Builds:
    """Builds of several workspaces on one listener, whose runtime is a package of one module."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lines: list[str] = []
        runtime = _package(
            folder / "runtime-source", "runtime", "", '[project]\nname = "runtime"\nversion = "1"\n'
        )
        installer = PackageInstaller(ProcessSandbox.open(Settings(home=folder / "home")))
        self._environments = PythonEnvironments(folder / "home", runtime, installer)

    async def build(self, workspace: str, library: str | None) -> RevisionEnvironment:
        """A project that has a library beside it, which its requirements name, or none."""
        place = self._place(workspace)
        (place.project / "langgraph.json").write_text(config())
        if library is not None:
            _package(place.project / "library", "library", library)
            (place.project / "requirements.txt").write_text("./library\n")
        config_read = read_project_config(place.project, "langgraph.json")
        return await self._environments.prepare(config_read, place)

    async def build_package(self, workspace: str, module: str) -> RevisionEnvironment:
        """A project that is itself a package, and leaves what it needs to its build backend."""
        place = self._place(workspace)
        _package(place.project / "agent", "agent", module)
        (place.project / "langgraph.json").write_text(config(dependencies=["./agent"]))
        return await self._environments.prepare(read_project_config(place.project, "langgraph.json"), place)

    def _place(self, workspace: str) -> BuildPlace:
        folder = self._folder / "builds" / str(len(self.lines)) / workspace
        place = BuildPlace(
            workspace=workspace,
            project=folder / "project",
            environment=folder / "environment",
            home=folder / "home",
            temporary=folder / "temporary",
            cache=self._folder / "home" / "caches" / workspace,
            on_line=self.lines.append,
        )
        for made in (place.project, place.home, place.temporary):
            made.mkdir(parents=True)
        return place


@pytest.fixture
def builds(tmp_path: Path) -> _Builds:
    return _Builds(tmp_path)


async def test_what_was_made_without_running_code_is_shared(builds: _Builds) -> None:
    one, two = await builds.build("a", None), await builds.build("b", None)
    assert one.lower == two.lower and one.upper.folder != two.upper.folder
    assert list(one.lower.rglob("runtime*.pyc")), "workers cannot write bytecode there"
    assert _run(one, "import runtime; print(runtime.__file__)").startswith(str(one.lower))


async def test_what_had_to_be_built_stays_with_its_workspace(builds: _Builds) -> None:
    one = await builds.build("a", "answer = 'a'")
    again = await builds.build("a", "answer = 'a'")
    other = await builds.build("b", "answer = 'a'")
    changed = await builds.build("a", "answer = 'changed'")
    assert one.lower == again.lower and len({one.lower, other.lower, changed.lower}) == 3
    assert one.lower.name.endswith("-a") and other.lower.name.endswith("-b")
    assert _run(changed, "import library; print(library.answer)") == "changed"


async def test_what_a_package_computes_about_itself_decides_about_its_environment(builds: _Builds) -> None:
    """Its pyproject.toml alone, without a project table, does not say what it needs: setup.py and the like do."""
    one = await builds.build_package("a", "answer = 'one'")
    two = await builds.build_package("a", "answer = 'two'")
    assert one.lower != two.lower


def _run(environment: RevisionEnvironment, code: str) -> str:
    return subprocess.check_output([environment.python, "-c", code], text=True).strip()
