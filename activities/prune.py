"""Removing builds that nobody will start again, and environments and caches beyond a size.

A record is removed before its files, and a folder is renamed before it is emptied: whoever dies in between leaves
only what the next firing removes.
"""

import asyncio
import subprocess
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from temporalio import activity

from activities.heartbeats import heartbeats
from activities.python_environment import PythonEnvironments
from activities.removal import remove_tree
from settings import Settings
from storage.builds import builds_on, forget_builds, listeners_with_builds
from storage.database import Database
from workflows.messages.prune import FIND_BUILDERS, PRUNE_BUILDS, PruneBuilds, Pruned
from workflows.messages.rollout import TERMINAL

log = structlog.get_logger()

_MARGIN_SECONDS = 1_800.0


class BuilderActivities:
    """On the platform."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @activity.defn(name=FIND_BUILDERS)
    async def find_builders(self) -> list[str]:
        """Listeners with builds on their hosts."""
        async with self._database.connection() as connection:
            return [str(found) for found in await listeners_with_builds(connection)]


class PruneActivities:
    """On a listener, for its own `folder`."""

    def __init__(
        self, database: Database, settings: Settings, folder: Path, environments: PythonEnvironments
    ) -> None:
        self._database = database
        self._settings = settings
        self._folder = folder.resolve()
        self._environments = environments
        # Younger than this, a folder may belong to a build that is not recorded yet.
        self._settled_seconds = settings.build_timeout_seconds + _MARGIN_SECONDS

    @activity.defn(name=PRUNE_BUILDS)
    async def prune(self, prune: PruneBuilds) -> Pruned:
        """Forget old builds, then remove what no build refers to."""
        listener_id = UUID(prune.listener_id)
        async with heartbeats():
            async with self._database.connection() as connection:
                await forget_builds(connection, listener_id, self._settings.kept_builds, TERMINAL)
                kept = await builds_on(connection, listener_id)
            builds = await asyncio.to_thread(self._remove_builds, {build["folder"] for build in kept})
            environments = await self._shrink(kept)
        if builds or environments:
            log.info("pruned", builds=builds, environments=environments)
        return Pruned(builds, environments)

    def _remove_builds(self, kept: set[str]) -> int:
        removed = 0
        for revision in _folders(self._folder / "revisions"):
            for attempt in _folders(revision):
                if str(attempt) not in kept and self._is_settled(attempt):
                    remove_tree(attempt)
                    removed += 1
            if self._is_settled(revision) and not any(revision.iterdir()):
                revision.rmdir()
        return removed

    async def _shrink(self, kept: list[dict[str, Any]]) -> int:
        """Remove environments that no build refers to, and workspaces' caches, down to the limit; oldest use first."""
        used = {path for build in kept for path in build.get("readable", [])}
        environments, caches = self._folder / "environments", self._folder / "caches"
        drafts = [path for path in _folders(environments) if path.name.endswith(".draft")]
        for draft in filter(self._is_settled, drafts):
            await asyncio.to_thread(remove_tree, draft)
        if any("readable" not in build for build in kept):
            return 0  # Built by an earlier version, which did not note its environment.
        sizes = await asyncio.to_thread(_sizes, [*_folders(environments), *_folders(caches)])
        excess = sum(sizes.values()) - self._settings.build_cache_bytes
        removed = 0
        for path in sorted(sizes, key=_last_used):
            if excess <= 0:
                break
            if str(path) in used or not self._is_settled(path):
                continue
            if path.parent == caches:
                await asyncio.to_thread(remove_tree, path)
            elif not await self._environments.discard(path, time.time() - self._settled_seconds):
                continue
            excess -= sizes[path]
            removed += 1
        return removed

    def _is_settled(self, path: Path) -> bool:
        return _last_used(path) < time.time() - self._settled_seconds


def _folders(path: Path) -> list[Path]:
    return [found for found in path.iterdir() if found.is_dir()] if path.is_dir() else []


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _sizes(folders: list[Path]) -> dict[Path, int]:
    """Bytes on the disk; a file with several links counts once."""
    if not folders:
        return {}
    printed = subprocess.run(
        ["du", "--summarize", "--block-size=1", "--", *map(str, folders)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    lines = (line.partition("\t") for line in printed.splitlines())
    return {Path(path): int(size) for size, _, path in lines}
