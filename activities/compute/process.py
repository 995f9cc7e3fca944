"""Revision workers as processes of the listener's host: the built-in compute."""

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

import structlog

from activities.compute.protocol import CannotStartError
from activities.compute.sandbox import ProcessSandbox
from activities.compute.temporary import TemporaryFolders
from activities.compute.worker_environment import process_environment, worker_environment
from activities.compute.worker_process import WorkerProcess
from activities.removal import remove_tree
from activities.revision_log import RevisionLog
from activities.subprocesses import OWNER_VARIABLE
from settings import Settings
from storage.database import Database
from storage.deployments import Deployment
from storage.revisions import Revision
from storage.secrets import SecretBox
from storage.worker_sets import WorkerSet, report_workers
from workflows.messages.rollout import RevisionRef

log = structlog.get_logger()

# A worker that ended so often while it started will not start.
_HOPELESS_CRASHES = 3
# After SIGTERM a worker drains for the time it was given; the process itself ends a little later.
_EXIT_SECONDS = 10.0
# How long all workers together may take when the listener itself ends, also those that drain already.
_LEAVING_SECONDS = 5.0


class _RunningSet:
    """The workers of one set, how one more is started, and what is closed when the last is gone."""

    def __init__(self, worker_set: WorkerSet, stack: AsyncExitStack) -> None:
        self.worker_set = worker_set
        self.stack = stack
        self.workers: list[WorkerProcess] = []
        self.ending: asyncio.Task[None] | None = None
        self.launch: Callable[[], WorkerProcess]


class ProcessCompute:
    """`async with ProcessCompute(...)`: on entering, what an earlier listener left is killed; on leaving, all is."""

    def __init__(
        self,
        database: Database,
        secrets: SecretBox,
        settings: Settings,
        folder: Path,
        sandbox: ProcessSandbox,
        temporary: TemporaryFolders,
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._settings = settings
        self._sandbox = sandbox
        self._temporary = temporary
        self._folder = folder.resolve()
        self._owner = f"{settings.listener_id} {self._folder}"
        self._sets: dict[str, _RunningSet] = {}
        self._starting = asyncio.Lock()
        self._reports: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "ProcessCompute":
        # Inherited by all that is started from here on, tools of builds among them.
        os.environ[OWNER_VARIABLE] = self._owner
        await asyncio.to_thread(_kill_leftovers, self._owner)
        await asyncio.to_thread(self._temporary.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The host goes down with the listener: runs in flight are resumed when it is back."""
        endings = [asyncio.create_task(self._end(found, _LEAVING_SECONDS)) for found in self._sets]
        if endings:
            await asyncio.wait(endings, timeout=_LEAVING_SECONDS)
        for running in self._sets.values():
            for worker in running.workers:
                worker.kill()
        await asyncio.gather(*endings)
        await asyncio.to_thread(self._temporary.close)

    async def start(self, worker_set: WorkerSet, deployment: Deployment, revision: Revision) -> None:
        """Implements `Compute.start`."""
        # A rollout and the listener's own look may both ask for it.
        async with self._starting:
            if str(worker_set.id) not in self._sets:
                self._sets[str(worker_set.id)] = await self._started(worker_set, deployment, revision)

    async def _started(
        self, worker_set: WorkerSet, deployment: Deployment, revision: Revision
    ) -> _RunningSet:
        if revision.source in ("external_docker", "internal_docker"):
            raise CannotStartError(
                "The built-in listener runs projects from source, not images: give 'source_config.listener_id' of a"
                " Kubernetes listener, or deploy from source (`langgraph deploy --remote`)."
            )
        build = revision.build or {}
        if not await asyncio.to_thread(Path(build.get("python", "/nonexistent")).exists):
            raise CannotStartError(
                "The build of this revision is not on the listener's host any more: create a new revision."
            )
        folder = Path(build["folder"])
        await asyncio.to_thread((folder / "home").mkdir, exist_ok=True)
        spec = revision.source_config.get("resource_spec", {})
        variables, secrets = worker_environment(
            self._settings,
            self._secrets,
            self._database.url,
            deployment,
            revision,
            worker_set,
        )
        ref = RevisionRef(str(revision.tenant_id), str(revision.deployment_id), str(revision.id))
        stack = AsyncExitStack()
        output = await stack.enter_async_context(RevisionLog(self._database, ref, "deploy", secrets))
        running = _RunningSet(worker_set, stack)
        environment = process_environment(variables, build)
        # A build of an earlier version did not note which environment it needs.
        readable = build.get("readable") or [str(self._folder / "environments")]

        def policy(temporary: Path) -> str | None:
            return self._sandbox.policy(
                read=[folder / "environment", *map(Path, readable)],
                write=[folder / "project", folder / "home", temporary],
            )

        def launch() -> WorkerProcess:
            return WorkerProcess(
                [build["python"], "-m", "slipway_runtime"],
                environment,
                Path(build["config"]).parent,
                output,
                lambda: self._report(running),
                temporary=self._temporary,
                policy=policy,
                cpus=math.ceil(_limit(spec, "cpu", "cpu_limit")),
                memory_limit_bytes=int(_limit(spec, "memory_mb", "memory_limit_mb")) * 2**20,
            )

        running.launch = launch
        running.workers = [launch() for _ in range(worker_set.replicas)]
        return running

    async def scale(self, worker_set: WorkerSet) -> None:
        """Implements `Compute.scale`."""
        running = self._sets.get(str(worker_set.id))
        if running is None:
            return
        running.worker_set = worker_set
        while len(running.workers) < worker_set.replicas:
            running.workers.append(running.launch())
        surplus = running.workers[worker_set.replicas :]
        del running.workers[worker_set.replicas :]
        await asyncio.gather(*(worker.stop(worker_set.drain_seconds + _EXIT_SECONDS) for worker in surplus))
        self._report(running)

    async def running(self) -> list[str]:
        """Implements `Compute.running`."""
        return list(self._sets)

    async def failure(self, worker_set_id: str) -> str | None:
        """Implements `Compute.failure`."""
        running = self._sets.get(worker_set_id)
        if running is None:
            return None
        for worker in running.workers:
            if worker.crashes >= _HOPELESS_CRASHES:
                return f"The worker ended {worker.crashes} times while it started. It printed:\n{worker.last_words()}"
        return None

    async def stop(self, worker_set_id: str, drain_seconds: float) -> None:
        """Implements `Compute.stop`."""
        await self._end(worker_set_id, drain_seconds + _EXIT_SECONDS)

    async def remove_deployment(self, deployment_id: str, revision_ids: list[str]) -> None:
        """Implements `Compute.remove_deployment`."""
        for revision_id in revision_ids:
            await asyncio.to_thread(remove_tree, self._folder / "revisions" / revision_id)

    async def _end(self, worker_set_id: str, grace_seconds: float) -> None:
        """The first who asks says how long the workers may take; whoever asks again waits with it."""
        running = self._sets.get(worker_set_id)
        if running is None:
            return
        if running.ending is None:
            running.ending = asyncio.create_task(self._drain(running, grace_seconds))
        await asyncio.shield(running.ending)

    async def _drain(self, running: _RunningSet, grace_seconds: float) -> None:
        try:
            await asyncio.gather(*(worker.stop(grace_seconds) for worker in running.workers))
        finally:
            for worker in running.workers:
                worker.kill()
        self._sets.pop(str(running.worker_set.id), None)
        await running.stack.aclose()
        self._report(running)

    def _report(self, running: _RunningSet) -> None:
        """Write down which processes there are, in the background."""
        task = asyncio.create_task(self._write_report(running))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _write_report(self, running: _RunningSet) -> None:
        observed = [worker.describe() for worker in running.workers]
        try:
            async with self._database.connection() as connection:
                await report_workers(
                    connection, running.worker_set.listener_id, running.worker_set.id, observed
                )
        except Exception as error:
            log.warning("worker_report_failed", error=str(error)[:200])


def _limit(spec: dict[str, float], request: str, limit: str) -> float:
    """A limit that is absent is twice the request; without a request there is none (control plane contract §2.5)."""
    return spec.get(limit) or 2 * (spec.get(request) or 0)


def _kill_leftovers(owner: str) -> None:
    """End what an earlier listener of this folder started and could not end."""
    mark = f"{OWNER_VARIABLE}={owner}".encode()
    for path in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    os.kill(int(path.name), signal.SIGKILL)
                    log.warning("leftover_killed", pid=int(path.name))
