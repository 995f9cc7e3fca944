"""Fetching a revision's source onto the listener's host, whatever it comes from."""

import asyncio
import shutil
from pathlib import Path
from typing import Protocol

from activities.archive import extract_project
from activities.compute.sandbox import ProcessSandbox
from activities.git import GitRepositories, SourceError
from activities.removal import remove_tree
from activities.revision_log import RevisionLog
from settings import Settings
from storage.database import Database
from storage.objects import ObjectMissingError, ObjectStore
from storage.revisions import Revision
from storage.uploads import find_upload


class Source(Protocol):
    """Where a project comes from."""

    async def fetch(self, revision: Revision, project: Path, output: RevisionLog) -> str | None:
        """Fill the empty folder `project`; the commit, where there is one.

        Raises:
            SourceError: the source is not there, or not allowed.
            UnsafeArchiveError: the tarball is refused.
        """
        ...


class UploadedSource:
    """`internal_source`: a tarball that was uploaded."""

    def __init__(self, database: Database, objects: ObjectStore, settings: Settings) -> None:
        self._database = database
        self._objects = objects
        self._settings = settings

    async def fetch(self, revision: Revision, project: Path, output: RevisionLog) -> str | None:
        """Implements `Source.fetch`."""
        path = revision.source_revision_config.get("source_tarball_path", "")
        async with self._database.connection() as connection:
            upload = await find_upload(connection, revision.tenant_id, revision.deployment_id, path)
        if upload is None or upload.object_key is None:
            raise SourceError(f"The upload '{path}' does not exist.")
        archive = project.with_name("source.tar.gz")
        try:
            sha256 = await self._objects.download(upload.object_key, archive)
        except ObjectMissingError as error:
            raise SourceError(f"The upload '{path}' is no longer in the object store.") from error
        if sha256 != upload.sha256:
            raise SourceError(f"The upload '{path}' has been changed since it was received.")
        output.write(f"Fetched {upload.size_bytes} bytes, SHA-256 {sha256}.")
        files = await asyncio.to_thread(
            extract_project,
            archive,
            project,
            limit_bytes=self._settings.project_limit_bytes,
            limit_files=self._settings.project_limit_files,
        )
        await asyncio.to_thread(archive.unlink)
        output.write(f"Unpacked {files} files.")
        return None


class RepositorySource:
    """`github`: a git repository by its clone URL, or a folder of the host below the one that operators allow."""

    def __init__(self, settings: Settings, sandbox: ProcessSandbox) -> None:
        self._settings = settings
        self._git = GitRepositories(settings, sandbox)

    async def fetch(self, revision: Revision, project: Path, output: RevisionLog) -> str | None:
        """Implements `Source.fetch`."""
        url = revision.source_config.get("repo_url", "")
        ref = revision.source_revision_config.get("repo_ref", "")
        folder = self._git.local_folder(url)
        commit = None
        if folder is not None and not (folder / ".git").exists() and not (folder / "HEAD").is_file():
            await asyncio.to_thread(shutil.copytree, folder, project, symlinks=True, dirs_exist_ok=True)
        else:
            commit = await self._git.fetch(url, ref, project, output.write)
            await asyncio.to_thread(remove_tree, project / ".git")
            output.write(f"Fetched {ref} at commit {commit}.")
        await asyncio.to_thread(self._check, project)
        return commit

    def _check(self, project: Path) -> None:
        files, size = 0, 0
        for path in project.rglob("*"):
            if path.is_symlink():
                path.unlink()
                continue
            files += 1
            size += path.stat().st_size
        if files > self._settings.project_limit_files or size > self._settings.project_limit_bytes:
            raise SourceError("The project is too large.")
