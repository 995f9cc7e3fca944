"""Fetching a revision's source onto the listener's host, whatever it comes from."""

import asyncio
import shutil
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from activities.archive import extract_project
from activities.compute.sandbox import ProcessSandbox
from activities.revision_log import RevisionLog
from activities.subprocesses import inherited_environment, run_tool
from settings import Settings
from storage.database import Database
from storage.objects import ObjectMissingError, ObjectStore
from storage.revisions import Revision
from storage.uploads import find_upload

_GIT_SECONDS = 600.0


class SourceError(Exception):
    """The revision's source cannot be had; the message says why."""


class Source(Protocol):
    """Where a project comes from."""

    async def fetch(self, revision: Revision, project: Path, output: RevisionLog) -> str | None:
        """Fill the empty folder `project`; the commit, where there is one.

        Raises:
            SourceError: the source is not there, or not allowed.
            UnsafeArchiveError: the tarball is refused.
            ToolFailedError: `git` failed.
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
        self._sandbox = sandbox

    async def fetch(self, revision: Revision, project: Path, output: RevisionLog) -> str | None:
        """Implements `Source.fetch`."""
        url = revision.source_config.get("repo_url", "")
        ref = revision.source_revision_config.get("repo_ref", "")
        folder = self._local_folder(url)
        if folder is not None and not (folder / ".git").exists() and not (folder / "HEAD").is_file():
            await asyncio.to_thread(shutil.copytree, folder, project, symlinks=True, dirs_exist_ok=True)
            commit = None
        else:
            commit = await self._clone(url, ref, folder, project, output)
        await asyncio.to_thread(self._check, project)
        return commit

    def _local_folder(self, url: str) -> Path | None:
        """The folder that a file URL names; None for other URLs."""
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return None
        root = self._settings.local_source_root
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise SourceError(f"'repo_url' must be an http(s) clone URL, not '{url}'.")
        folder = Path(unquote(parts.path)).resolve()
        if root is None or not folder.is_relative_to(root.resolve()):
            raise SourceError(f"Folders of the listener's host may not be deployed from '{folder}'.")
        if not folder.is_dir():
            raise SourceError(f"The folder '{folder}' does not exist.")
        return folder

    async def _clone(
        self, url: str, ref: str, folder: Path | None, project: Path, output: RevisionLog
    ) -> str:
        """One commit without its history; the commit's id."""
        if ref.startswith("-") or any(character.isspace() for character in ref):
            raise SourceError(f"'repo_ref' is not a branch, tag or commit: '{ref}'.")
        environment = {
            **inherited_environment(),
            "HOME": str(project),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ALLOW_PROTOCOL": "http:https:file",
            # Whoever owns a folder that operators allow: the listener only reads it.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }

        # What is fetched is a stranger's, and so are the tools' ways of reading it.
        policy = self._sandbox.policy(read=[folder] if folder else [], write=[project])

        async def git(*arguments: str) -> list[str]:
            printed: list[str] = []
            await run_tool(
                ["git", *arguments],
                cwd=project,
                environment=environment,
                on_line=printed.append,
                policy=policy,
            )
            for line in printed:
                output.write(line)
            return printed

        async with asyncio.timeout(_GIT_SECONDS):
            await git("init", "--quiet")
            # A link would lead out of the project: it is written as the text that it holds.
            await git("config", "core.symlinks", "false")
            await git("fetch", "--quiet", "--depth", "1", "--no-tags", url, ref)
            await git("checkout", "--quiet", "FETCH_HEAD")
            commit = (await git("rev-parse", "HEAD"))[-1].strip()
        await asyncio.to_thread(shutil.rmtree, project / ".git")
        output.write(f"Fetched {ref} at commit {commit}.")
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
