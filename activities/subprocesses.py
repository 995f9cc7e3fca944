"""Running a tool for a build: its output line by line, what it may touch limited, its end certain."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from activities.compute.sandbox import POLICY_VARIABLE

# Marks everything that a listener started, for the one that comes after it.
OWNER_VARIABLE = "SLIPWAY_LISTENER"
# What a tool or a user's process may see of this process's environment: never an address or a key of ours.
_INHERITED = re.compile(
    r"SLIPWAY_LISTENER|PATH|LANG|LC_\w+|TZ|TMPDIR|(?i:https?_proxy|no_proxy|all_proxy)|SSL_CERT_(FILE|DIR)"
    r"|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO|NIX_SSL_CERT_FILE"
)
# Where packages come from. What opens a private index is for the installer alone, while no code of projects runs.
_INSTALLERS = re.compile(r"UV_\w+|PIP_\w+")
_CREDENTIALS = re.compile(r"TOKEN|PASSWORD|USERNAME|KEYRING|NETRC|CLIENT_CERT|PUBLISH")
_LAUNCHER = Path(__file__).parent / "compute" / "launcher.py"
_READ_LIMIT = 1024 * 1024


class ToolFailedError(Exception):
    """A tool ended with an error; the message holds the last lines that it printed."""


def inherited_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The harmless part of this process's environment."""
    source = os.environ if variables is None else variables
    return {name: value for name, value in source.items() if _INHERITED.fullmatch(name)}


def installer_environment(*, credentials: bool = False) -> dict[str, str]:
    """What also tells installers of packages where to look; with `credentials` what private indexes ask for."""
    settings = {name: value for name, value in os.environ.items() if _INSTALLERS.fullmatch(name)}
    if not credentials:
        settings = {name: value for name, value in settings.items() if not _CREDENTIALS.search(name)}
    return {**inherited_environment(), **settings}


def launched(
    command: Sequence[str | Path], environment: Mapping[str, str], policy: str | None, cpus: int = 0
) -> tuple[list[str], dict[str, str]]:
    """The command line and environment by which a launcher runs `command`, confined to `policy`.

    SIGUSR1 to the launcher ends all that the command started.
    """
    line = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(cpus), *map(str, command)]
    return line, {**environment, **({POLICY_VARIABLE: policy} if policy is not None else {})}


async def run_tool(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_line: Callable[[str], None],
    policy: str | None = None,
) -> None:
    """Run a command, confined to `policy`; whatever it started ends with it, or when this is cancelled.

    Raises:
        ToolFailedError: it ended with another code than 0.
    """
    line, variables = launched(command, environment, policy)
    process = await asyncio.create_subprocess_exec(
        *line,
        cwd=cwd,
        env=variables,
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
        await asyncio.wait([reading], timeout=2.0)
    finally:
        reading.cancel()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGUSR1)
        await asyncio.shield(process.wait())
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
