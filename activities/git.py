"""Calls of `git` to repositories of strangers: confined, without prompts, hooks or the host's configuration."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from activities.compute.sandbox import ProcessSandbox
from activities.subprocesses import ToolFailedError, inherited_environment, run_tool
from settings import Settings

_FETCH_SECONDS = 300.0
_LOOK_SECONDS = 30.0
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")


class SourceError(Exception):
    """A revision's source cannot be had; the message says why."""


class GitRepositories:
    """Repositories by their clone URLs, or folders of the host below the one that operators allow."""

    def __init__(self, settings: Settings, sandbox: ProcessSandbox) -> None:
        self._settings = settings
        self._sandbox = sandbox

    def local_folder(self, url: str) -> Path | None:
        """The folder that a file URL names; None for http(s).

        Raises:
            SourceError: neither, or not allowed, or not there.
        """
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

    async def fetch(self, url: str, ref: str, project: Path, on_line: Callable[[str], None]) -> str:
        """One commit, without its history, into the empty folder `project`; the commit's id.

        Raises:
            SourceError: no such ref, or the repository cannot be reached in time.
        """
        _check_ref(ref)

        async def git(*arguments: str) -> list[str]:
            lines = await self._git(url, project, *arguments)
            for line in lines:
                on_line(line)
            return lines

        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                await git("init", "--quiet")
                # A link would lead out of the project: it is written as the text that it holds.
                await git("config", "core.symlinks", "false")
                await git("fetch", "--quiet", "--depth", "1", "--no-tags", url, ref)
                await git("checkout", "--quiet", "FETCH_HEAD")
                return (await git("rev-parse", "HEAD"))[-1].strip()
        except ToolFailedError as error:
            raise SourceError(
                f"'{ref}' of {_shown(url)} could not be fetched: {_shown(str(error))}"
            ) from error
        except TimeoutError as error:
            raise SourceError(f"{_shown(url)} did not answer within {_FETCH_SECONDS:g} s.") from error

    async def head(self, url: str, branch: str, folder: Path) -> str:
        """The commit that a branch is at now. `folder` is an empty one to work in.

        Raises:
            SourceError: no such branch, or the repository cannot be reached in time.
        """
        _check_ref(branch)
        ref = branch if branch.startswith("refs/") else f"refs/heads/{branch}"
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                lines = await self._git(url, folder, "ls-remote", "--exit-code", url, ref)
        except ToolFailedError as error:
            raise SourceError(f"'{ref}' of {_shown(url)} was not found: {_shown(str(error))}") from error
        except TimeoutError as error:
            raise SourceError(f"{_shown(url)} did not answer within {_LOOK_SECONDS:g} s.") from error
        return next(line.split()[0] for line in lines if line.split()[1:] == [ref])

    async def _git(self, url: str, folder: Path, *arguments: str) -> list[str]:
        local = self.local_folder(url)
        environment = {
            **inherited_environment(),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ALLOW_PROTOCOL": "http:https:file",
            "GIT_HTTP_LOW_SPEED_LIMIT": "100",
            "GIT_HTTP_LOW_SPEED_TIME": "30",
            # Whoever owns a folder that operators allow: the listener only reads it.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        printed: list[str] = []
        await run_tool(
            ["git", *arguments],
            cwd=folder,
            environment=environment,
            on_line=printed.append,
            policy=self._sandbox.policy(read=[local] if local else [], write=[folder]),
        )
        return printed


def _check_ref(ref: str) -> None:
    if not ref or ref.startswith("-") or any(character.isspace() for character in ref):
        raise SourceError(f"'repo_ref' is not a branch, tag or commit: '{ref}'.")


def _shown(text: str) -> str:
    """`text` without what stands before the host of a URL: that may be a password."""
    return _USER_INFO.sub("***@", text)
