"""Stands between the listener and one worker or tool, so that nothing that it starts outlives either.

Run as a script with the standard library alone: `launcher.py <listener pid> <cpus> <command> ...`. It ends with the
command's exit code. SIGTERM is passed on to the command; on SIGUSR1, and when the listener dies, everything is killed
at once. The variable SLIPWAY_SANDBOX_POLICY, which the command does not get, says what it is confined to: the command
only, so that it cannot signal its launcher.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LISTENER_DIED = signal.SIGUSR1
_POLICY_VARIABLE = "SLIPWAY_SANDBOX_POLICY"


def main() -> None:
    listener, cpus, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    policy = os.environ.pop(_POLICY_VARIABLE, None)
    worker = 0

    def on_listener_died(_: int, __: FrameType | None) -> None:
        _kill_descendants()
        os._exit(1)

    def on_terminate(number: int, _: FrameType | None) -> None:
        if worker:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, number)

    signal.signal(_LISTENER_DIED, on_listener_died)
    signal.signal(signal.SIGTERM, on_terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever the worker leaves behind becomes a child of this process instead of the system's.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, _LISTENER_DIED)
    if os.getppid() != listener:
        os._exit(1)
    if cpus:
        _confine(cpus)
    me = os.getpid()
    worker = os.fork()
    if worker == 0:
        _become(command, me, policy)
    os._exit(_wait_for(worker))


def _become(command: list[str], launcher: int, policy: str | None) -> None:
    for number in (_LISTENER_DIED, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        os._exit(1)
    try:
        if policy is not None:
            _restrict(policy)
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"ERROR {command[0]}: {error.strerror}\n")
        sys.stderr.flush()
    os._exit(127)


def _restrict(policy: str) -> None:
    # Run as a script and isolated, this process does not find its own package by itself.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))  # noqa: PTH120
    from activities.compute.landlock import restrict

    restrict(**json.loads(policy))


def _wait_for(worker: int) -> int:
    """The worker's exit code, 128 + n after signal n; by then everything that it started is gone."""
    while True:
        pid, status = os.wait()
        if pid == worker:
            _kill_descendants()
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _kill_descendants() -> None:
    """Kill children until none is left: each one's own children become ours as it dies."""
    while True:
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Ids of this process's own children."""
    me, found = os.getpid(), []
    for name in os.listdir("/proc"):  # noqa: PTH208 - without pathlib the launcher starts faster
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:  # noqa: PTH123
                if int(file.read().rpartition(")")[2].split()[1]) == me:
                    found.append(int(name))
    return found


def _confine(cpus: int) -> None:
    """Keep this process and its children on `cpus` of the host's processors."""
    available = sorted(os.sched_getaffinity(0))
    if cpus < len(available):
        first = os.getpid() % len(available)
        os.sched_setaffinity(0, {available[(first + n) % len(available)] for n in range(cpus)})


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
