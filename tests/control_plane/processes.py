"""Worker processes of revisions on this host, as the system sees them."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path


def workers_of(revision_id: str) -> list[int]:
    """Ids of a revision's worker processes, without their launchers."""
    found = []
    mark = f"SLIPWAY_REVISION_ID={revision_id}".encode()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                command = (path / "cmdline").read_bytes().split(b"\0")
                variables = (path / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            is_launcher = any(b"launcher" in part for part in command)
            if mark in variables and b"slipway_runtime" in command and not is_launcher:
                found.append(int(path.name))
    return found


async def wait_for_workers(
    revision_id: str, condition: Callable[[list[int]], bool], seconds: float = 60.0
) -> list[int]:
    """A revision's workers, once they are as `condition` wants them."""
    deadline = time.monotonic() + seconds
    while not condition(found := workers_of(revision_id)):
        assert time.monotonic() < deadline, f"the workers of {revision_id} are {found}"
        await asyncio.sleep(0.1)
    return found
