"""Running a tool for a build: its output line by line, its end certain."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Marks everything that a listener started, for the one that comes after it.
OWNER_VARIABLE = "SLIPWAY_LISTENER"
# What a tool or a user's process may see of this process's environment: never an address or a key of ours.
_INHERITED = re.compile(
    r"SLIPWAY_LISTENER|PATH|LANG|LC_\w+|TZ|TMPDIR|UV_\w+|PIP_\w+|(?i:https?_proxy|no_proxy|all_proxy)|SSL_CERT_(FILE|DIR)"
    r"|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO|NIX_SSL_CERT_FILE"
)
_READ_LIMIT = 1024 * 1024


class ToolFailedError(Exception):
    """A tool ended with an error; the message holds the last lines that it printed."""


def inherited_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The harmless part of this process's environment."""
    source = os.environ if variables is None else variables
    return {name: value for name, value in source.items() if _INHERITED.fullmatch(name)}


async def run_tool(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_line: Callable[[str], None],
) -> None:
    """Run a command in a process group of its own, which is killed as a whole if this is cancelled.

    Raises:
        ToolFailedError: it ended with another code than 0.
    """
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=cwd,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        limit=_READ_LIMIT,
    )
    last: list[str] = []

    def keep(line: str) -> None:
        on_line(line)
        last.append(line)
        del last[:-15]

    assert process.stdout is not None
    reading = asyncio.create_task(read_lines(process.stdout, keep))
    try:
        code = await process.wait()
        # A process that the tool left behind may hold the pipe open.
        await asyncio.wait([reading], timeout=2.0)
    finally:
        reading.cancel()
        kill_group(process.pid)
        await process.wait()
    if code != 0:
        name = Path(str(command[0])).name
        printed = "\n".join(line for line in last if line.strip())
        raise ToolFailedError(f"`{name}` ended with code {code}:\n{printed}")


async def read_lines(stream: asyncio.StreamReader, on_line: Callable[[str], None]) -> None:
    """Hand over each line until the stream ends; what exceeds a megabyte without a line break comes in pieces."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            line = await stream.read(_READ_LIMIT)
        if not line:
            return
        on_line(line.decode(errors="replace").rstrip("\r\n"))


def kill_group(group: int) -> None:
    """End a whole process group at once; one that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
