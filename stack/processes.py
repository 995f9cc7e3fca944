"""Facts about operating system processes: dying with the parent, finding and ending descendants."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def dies_with_parent(death_signal: signal.Signals) -> Callable[[], None]:
    """Code to run in a new child before its program: the kernel sends it `death_signal` when the parent dies.

    Must run after a change of user, which would clear it; `subprocess` calls `preexec_fn` in that order.
    """
    parent = os.getpid()

    def set_signal() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return set_signal


def adopt_orphans() -> None:
    """Descendants whose parent dies become children of this process, so that none is lost out of sight."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> set[int]:
    """Ids of all living or undead processes below `root`."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def reap_orphans(known: set[int]) -> None:
    """Collect adopted children that have ended. `known` are collected by whoever started them."""
    me = os.getpid()
    for pid in [pid for pid, parent in _parents() if parent == me and pid not in known]:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the process group that `pid` leads; nothing happens if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def signal_process(pid: int, number: signal.Signals) -> None:
    """Signal one process; nothing happens if it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def is_alive(pid: int) -> bool:
    """Whether a process of this id exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def _parents() -> list[tuple[int, int]]:
    """(process, parent) of all processes."""
    pairs = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                pairs.append((int(entry.name), int(fields[1])))
    return pairs
