"""Fetching sources on the listener's host: git repositories and folders."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from activities.compute.sandbox import ProcessSandbox
from activities.git import SourceError
from activities.revision_log import RevisionLog
from activities.source import RepositorySource
from settings import Settings
from storage.revisions import Revision
from tests.control_plane.projects import echo


class _Output:
    """Keeps what a build would log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, message: str, level: str | None = None) -> None:
        self.lines.append(message)


def _revision(url: str, ref: str) -> Revision:
    values: dict[str, Any] = dict.fromkeys(Revision.__dataclass_fields__)
    revision = Revision(**values)
    return replace(
        revision, id=uuid4(), source_config={"repo_url": url}, source_revision_config={"repo_ref": ref}
    )


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    result = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return result.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a branch, a tag, and a link that leads out of it."""
    folder = tmp_path / "host" / "repository"
    folder.mkdir(parents=True)
    _git(folder, "init", "-q", "-b", "main")
    for name, content in echo("one").items():
        (folder / name).write_text(content)
    (folder / "escape").symlink_to("/etc")
    _git(folder, "add", ".")
    _git(folder, "commit", "-qm", "one")
    _git(folder, "tag", "v1")
    (folder / "agent.py").write_text("# two")
    _git(folder, "commit", "-qam", "two")
    return folder


async def _fetch(tmp_path: Path, url: str, ref: str) -> tuple[Path, str | None]:
    project = tmp_path / "project"
    project.mkdir()
    output: Any = _Output()
    settings = Settings(local_source_root=tmp_path / "host")
    source = RepositorySource(settings, ProcessSandbox.open(settings))
    assert isinstance(output, RevisionLog | _Output)
    return project, await source.fetch(_revision(url, ref), project, output)


@pytest.mark.parametrize(("ref", "content"), [("main", "# two"), ("refs/tags/v1", "one")])
async def test_a_ref_is_fetched_and_its_commit_known(
    tmp_path: Path, repository: Path, ref: str, content: str
) -> None:
    project, commit = await _fetch(tmp_path, f"file://{repository}", ref)
    assert content in (project / "agent.py").read_text()
    assert commit == _git(repository, "rev-parse", f"{ref}^{{commit}}")
    assert not (project / ".git").exists() and not (project / "escape").is_symlink()


async def test_a_folder_is_copied(tmp_path: Path) -> None:
    folder = tmp_path / "host" / "plain"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text("graph = 1")
    (folder / "escape").symlink_to("/etc/passwd")
    project, commit = await _fetch(tmp_path, f"file://{folder}", "main")
    assert commit is None and sorted(path.name for path in project.iterdir()) == ["agent.py"]


@pytest.mark.parametrize(
    ("url", "ref"),
    [
        ("file:///etc", "main"),
        ("file://{root}/../outside", "main"),
        ("file://{root}/missing", "main"),
        ("ssh://host/x", "main"),
        ("ext::sh -c id", "main"),
        ("/etc", "main"),
        ("file://{root}/repository", "--upload-pack=id"),
        ("file://{root}/repository", "no-such-branch"),
    ],
)
async def test_what_may_not_or_cannot_be_fetched_is_refused(
    tmp_path: Path, repository: Path, url: str, ref: str
) -> None:
    (tmp_path / "outside").mkdir()
    with pytest.raises(SourceError):
        await _fetch(tmp_path, url.replace("{root}", str(tmp_path / "host")), ref)
