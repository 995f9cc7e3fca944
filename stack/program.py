"""What the supervisor runs: a command, how to tell that it serves, how to stop it."""

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Raises `health.UnhealthyError` unless the program, running as this process and started at this time (seconds
# since the epoch), really serves.
Check = Callable[[int, float], Awaitable[None]]


@dataclass(frozen=True)
class SystemUser:
    """A user of the operating system that a program runs as instead of root."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Program:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    check: Check
    # Sent to the process to stop it; after `stop_seconds` its whole group is killed.
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    # Sent by the kernel when the supervisor dies without having stopped it.
    death_signal: signal.Signals = signal.SIGTERM
    user: SystemUser | None = None
    # Files that it leaves behind outside the home; removed when it has been stopped.
    leftovers: Sequence[Path] = ()
