"""One supervised process: started, watched, restarted with backoff, stopped with all it started."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

from stack.health import UnhealthyError
from stack.processes import descendants, dies_with_parent, is_alive, signal_group, signal_process
from stack.program import Program

log = structlog.get_logger()

_FIRST_BACKOFF_SECONDS = 0.25
_LAST_BACKOFF_SECONDS = 30.0
# A process that served this long was healthy: its next crash counts as its first.
_FORGIVEN_AFTER_SECONDS = 60.0
_STARTING_POLL_SECONDS = 0.1
_SERVING_POLL_SECONDS = 5.0


class Status(StrEnum):
    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    RESTARTING = "restarting"
    STOPPED = "stopped"


class Child:
    """Runs a program until told to stop. `on_change` is called whenever `describe()` changes."""

    def __init__(self, program: Program, log_file: Path, on_change: Callable[[], None]) -> None:
        self.program = program
        self.log_file = log_file
        self.status = Status.STOPPED
        self.pid: int | None = None
        self.restarts = 0
        self.problem: str | None = None
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._healthy = asyncio.Event()

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.program.name,
            "pid": self.pid,
            "status": str(self.status),
            "restarts": self.restarts,
            "problem": self.problem,
            "log": str(self.log_file),
        }

    def start(self) -> None:
        """Start it, and again whenever it ends by itself."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_running(), name=self.program.name)

    async def until_healthy(self) -> None:
        """Returns when the program serves."""
        await self._healthy.wait()

    async def stop(self) -> None:
        """End it and everything it started: by its stop signal, then by force."""
        task, self._task = self._task, None
        if task:
            task.cancel()
            await asyncio.wait([task])
        if self._process and self._process.returncode is None:
            await self._end(self._process)
        for path in self.program.leftovers:
            path.unlink(missing_ok=True)
        self.pid, self.problem = None, None
        self._set(Status.STOPPED)

    async def restart(self) -> None:
        """Stop and start, outside the counting of crashes."""
        await self.stop()
        self.start()

    async def _keep_running(self) -> None:
        crashes = 0
        while True:
            started = time.time()
            process = await self._spawn()
            watch = asyncio.create_task(self._watch_health(process.pid, started))
            try:
                code = await process.wait()
            finally:
                watch.cancel()
                await asyncio.wait([watch])
            crashes = 1 if time.time() - started > _FORGIVEN_AFTER_SECONDS else crashes + 1
            delay = min(_FIRST_BACKOFF_SECONDS * 2 ** (crashes - 1), _LAST_BACKOFF_SECONDS)
            signal_group(process.pid, signal.SIGKILL)  # what the dead process leaves behind
            self.restarts += 1
            self.problem = f"{_ending(code)}; started again in {delay:g} s"
            self._set(Status.RESTARTING)
            log.error(
                "process_ended", process=self.program.name, ending=_ending(code), restart_in_seconds=delay
            )
            await asyncio.sleep(delay)

    async def _spawn(self) -> asyncio.subprocess.Process:
        user = self.program.user
        identity: dict[str, Any] = {"user": user.uid, "group": user.gid, "extra_groups": []} if user else {}
        descriptor = os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = await asyncio.create_subprocess_exec(
                *self.program.command,
                env=dict(self.program.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
                preexec_fn=dies_with_parent(self.program.death_signal),
                **identity,
            )
        finally:
            os.close(descriptor)
        self._process, self.pid = process, process.pid
        self._set(Status.STARTING)
        return process

    async def _watch_health(self, pid: int, started: float) -> None:
        while True:
            try:
                await self.program.check(pid, started)
            except UnhealthyError as error:
                self.problem = str(error)
                if self.status == Status.HEALTHY:
                    log.warning("process_unhealthy", process=self.program.name, problem=self.problem)
                    self._set(Status.UNHEALTHY)
            else:
                self.problem = None
                self._set(Status.HEALTHY)
            serving = self.status == Status.HEALTHY
            await asyncio.sleep(_SERVING_POLL_SECONDS if serving else _STARTING_POLL_SECONDS)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        started_by_it = descendants(process.pid)
        signal_process(process.pid, self.program.stop_signal)
        try:
            async with asyncio.timeout(self.program.stop_seconds):
                await process.wait()
        except TimeoutError:
            log.warning("process_killed", process=self.program.name, after_seconds=self.program.stop_seconds)
            started_by_it |= descendants(process.pid)
        signal_group(process.pid, signal.SIGKILL)
        for pid in started_by_it:
            if is_alive(pid):
                signal_process(pid, signal.SIGKILL)
        await process.wait()

    def _set(self, status: Status) -> None:
        if status == Status.HEALTHY:
            self._healthy.set()
        else:
            self._healthy.clear()
        if status != self.status:
            self.status = status
            self._on_change()


def _ending(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
