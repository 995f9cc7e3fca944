"""One revision worker, kept running."""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from activities.compute.temporary import TemporaryFolders
from activities.revision_log import RevisionLog
from activities.subprocesses import launched, read_lines

log = structlog.get_logger()

_READ_LIMIT = 1024 * 1024
_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 30.0
# A worker that lived so long had started well: the next crash counts as its first.
_SETTLED_SECONDS = 60.0
_MEMORY_CHECK_SECONDS = 2.0


class WorkerProcess:
    """Starts a worker, and again after a crash, with growing delays, until it is stopped."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        output: RevisionLog,
        on_change: Callable[[], None],
        *,
        temporary: TemporaryFolders,
        policy: Callable[[Path], str | None],
        cpus: int = 0,
        memory_limit_bytes: int = 0,
    ) -> None:
        self._command = command
        self._environment = dict(environment)
        self._temporary = temporary
        self._policy = policy
        self._cpus = cpus
        self._cwd = cwd
        self._output = output
        self._on_change = on_change
        self._memory_limit_bytes = memory_limit_bytes
        self._process: asyncio.subprocess.Process | None = None
        self._started_at: datetime | None = None
        self._stopping = asyncio.Event()
        self._last_lines: deque[str] = deque(maxlen=15)
        self.crashes = 0
        self.restarts = 0
        self._task = asyncio.create_task(self._keep_running())

    def describe(self) -> dict[str, Any]:
        """For operators: process id of the launcher, start and restarts."""
        running = self._process is not None and self._process.returncode is None
        return {
            "pid": self._process.pid if running and self._process else None,
            "started_at": self._started_at.isoformat() if self._started_at else None,
            "restarts": self.restarts,
        }

    def last_words(self) -> str:
        """The last lines that the worker printed, without secrets."""
        return self._output.masked("\n".join(self._last_lines))

    async def stop(self, grace_seconds: float) -> None:
        """Ask the worker to finish; what is left after `grace_seconds` is killed."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        done, _ = await asyncio.wait([self._task], timeout=grace_seconds)
        if not done:
            self._output.write(f"The worker did not end within {grace_seconds:g} s and is killed.", "WARNING")
            self.kill()
            await asyncio.wait([self._task])

    def kill(self) -> None:
        """End the worker and everything that it started, at once."""
        self._stopping.set()
        self._signal(signal.SIGUSR1)

    async def _keep_running(self) -> None:
        delay = _FIRST_DELAY_SECONDS
        while not self._stopping.is_set():
            begun = asyncio.get_running_loop().time()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            if asyncio.get_running_loop().time() - begun > _SETTLED_SECONDS:
                delay, self.crashes = _FIRST_DELAY_SECONDS, 0
            self.crashes += 1
            self.restarts += 1
            self._output.write(
                f"The worker ended with code {code}; it is started again in {delay:g} s.", "ERROR"
            )
            log.warning("revision_worker_ended", code=code, restart_in_seconds=delay)
            self._on_change()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)
            delay = min(delay * 2, _LONGEST_DELAY_SECONDS)

    async def _run_once(self) -> int:
        async with self._temporary.folder() as temporary:
            environment = {**self._environment, "TMPDIR": str(temporary)}
            return await self._run_launched(
                *launched(self._command, environment, self._policy(temporary), self._cpus)
            )

    async def _run_launched(self, line: Sequence[str], environment: Mapping[str, str]) -> int:
        process = await asyncio.create_subprocess_exec(
            *line,
            cwd=self._cwd,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            limit=_READ_LIMIT,
        )
        self._process, self._started_at = process, datetime.now(UTC)
        self._on_change()
        assert process.stdout is not None
        reading = asyncio.create_task(read_lines(process.stdout, self._on_line))
        watching = asyncio.create_task(self._watch_memory(process.pid))
        try:
            code = await process.wait()
            await asyncio.wait([reading], timeout=1.0)
            return code
        finally:
            reading.cancel()
            watching.cancel()

    def _on_line(self, line: str) -> None:
        self._last_lines.append(line)
        self._output.write(line)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _watch_memory(self, launcher: int) -> None:
        """A process group has no memory limit of its own: look at it now and then."""
        while self._memory_limit_bytes:
            await asyncio.sleep(_MEMORY_CHECK_SECONDS)
            used = await asyncio.to_thread(_resident_bytes, launcher)
            if used > self._memory_limit_bytes:
                limit = self._memory_limit_bytes // 2**20
                self._output.write(
                    f"The worker uses {used // 2**20} MB, more than its {limit} MB: killed.", "ERROR"
                )
                self._signal(signal.SIGUSR1)
                return


def _resident_bytes(launcher: int) -> int:
    """Memory of a launcher and everything below it: what starts there can leave its session, not its launcher."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    pages = 0
    for process in parents:
        ancestor = process
        while ancestor not in (0, launcher):
            ancestor = parents.get(ancestor, 0)
        if ancestor == launcher:
            with contextlib.suppress(OSError):
                pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
