"""The revision worker: one process, one revision, its queues."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta

import uvloop
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker, WorkerDeploymentConfig

from slipway_runtime.auth import CustomAuth, load_auth
from slipway_runtime.calls import CallActivities
from slipway_runtime.describe import LoadedProject, RevisionActivities, error_text
from slipway_runtime.environment import WorkerEnvironment
from slipway_runtime.events import EventWriter
from slipway_runtime.execution import HEARTBEAT_SECONDS, RunActivities
from slipway_runtime.graph_run import GraphRun
from slipway_runtime.graphs import Graphs
from slipway_runtime.http_app import load_app
from slipway_runtime.messages import Description, deployment_queue, revision_queue, worker_set_queue
from slipway_runtime.pools import HomePool, Pool, open_pool
from slipway_runtime.project import Project, read_project
from slipway_runtime.state_update import StateActivities
from slipway_runtime.store import Stores
from slipway_runtime.user_loop import UserCodeStuckError, UserLoop

log = logging.getLogger(__name__)

_CONNECT_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
_TRACE_FLUSH_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_THREADS_PER_RUN = 8


def main() -> None:
    """Serve until SIGTERM or SIGINT; then drain and exit with 0."""
    logging.basicConfig(
        level=os.environ.get("SLIPWAY_LOG_LEVEL", "INFO"),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    code = uvloop.run(serve(WorkerEnvironment.read(os.environ)))
    _flush_traces()
    logging.shutdown()
    sys.stdout.flush()
    # A normal exit can abort in the interpreter's teardown while native threads still run (sdk-python#300).
    os._exit(code)


async def serve(environment: WorkerEnvironment) -> int:
    """Poll the queues until told to stop; 0 is the exit code of an orderly end."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    user_loop = UserLoop(environment.slots * _THREADS_PER_RUN)
    user_loop.start()
    # Before any code of the project: an import that never ends blocks that loop, and must not keep us from ending.
    user_pool = await user_loop.run(_opened_pool(environment))
    loading = asyncio.create_task(_load(environment, user_loop))
    client = await _connect()
    pool = await _opened_pool(environment)
    home = HomePool(pool, asyncio.get_running_loop())

    def load() -> "asyncio.Future[LoadedProject]":
        return asyncio.shield(loading)

    describe = RevisionActivities(load, user_loop).describe
    revision = Worker(
        client,
        task_queue=revision_queue(environment.revision_id),
        activities=[
            describe,
            StateActivities(load, user_loop, home).update_state,
            CallActivities(load, user_loop, user_pool).call,
        ],
        graceful_shutdown_timeout=timedelta(seconds=1),
    )
    async with revision, _probed(environment, client, describe):
        runs = asyncio.create_task(
            _serve_runs(environment, client, loading, user_loop, user_pool, home, stop)
        )
        await asyncio.wait([runs, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await runs
    await pool.close()
    with contextlib.suppress(TimeoutError, UserCodeStuckError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await user_loop.run(user_pool.close())
    return 0


def _probed(
    environment: WorkerEnvironment, client: Client, describe: Callable[[], Awaitable[Description]]
) -> AbstractAsyncContextManager[object]:
    """Answers the probe of this process's own set of workers, which no other worker of the revision may answer."""
    if environment.worker_set_id is None:
        return nullcontext()
    return Worker(
        client,
        task_queue=worker_set_queue(environment.worker_set_id),
        activities=[describe],
        max_concurrent_activities=1,
        max_concurrent_activity_task_polls=1,
        graceful_shutdown_timeout=timedelta(seconds=1),
    )


async def _serve_runs(
    environment: WorkerEnvironment,
    client: Client,
    loading: "asyncio.Task[LoadedProject]",
    user_loop: UserLoop,
    user_pool: Pool,
    home: HomePool,
    stop: asyncio.Event,
) -> None:
    """Execute runs, once the project has loaded; a project that does not load only answers that it does not."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([loading, stopping], return_when=asyncio.FIRST_COMPLETED)
    project = loading.result() if loading.done() else None
    if project is None or project.graphs is None or project.stores is None:
        await stopping
        return
    events = EventWriter(home.pool, environment.limits)
    writing = asyncio.create_task(events.run())
    runs = RunActivities(
        environment.revision_id,
        home.pool,
        events,
        user_loop,
        GraphRun(project.graphs, project.stores, user_pool, home, lambda: events.is_full),
    )
    worker = Worker(
        client,
        task_queue=deployment_queue(environment.deployment_id),
        activities=[runs.execute_run],
        max_concurrent_activities=environment.slots,
        graceful_shutdown_timeout=timedelta(seconds=environment.grace_seconds),
        max_heartbeat_throttle_interval=timedelta(seconds=HEARTBEAT_SECONDS),
        default_heartbeat_throttle_interval=timedelta(seconds=HEARTBEAT_SECONDS),
        deployment_config=WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(environment.deployment_id, environment.revision_id),
            use_worker_versioning=True,
        ),
    )
    async with worker:
        log.info(
            "serving_runs deployment_id=%s revision_id=%s",
            environment.deployment_id,
            environment.revision_id,
        )
        await stopping
    writing.cancel()


async def _opened_pool(environment: WorkerEnvironment) -> Pool:
    """A pool that belongs to the running loop."""
    pool = open_pool(environment.database_url, environment.slots + 2)
    await pool.open()
    return pool


async def _load(environment: WorkerEnvironment, user_loop: UserLoop) -> LoadedProject:
    try:
        project = read_project(environment.project_config)
        project.prepare_process()
        graphs, stores = Graphs(project), Stores(environment.deployment_id, project)
        await user_loop.run(_import(graphs))
        await user_loop.run(stores.prepare(environment.database_url))
        auth = await user_loop.run(_load_auth(project))
        app = await user_loop.run(load_app(project))
    except BaseException as error:  # user code: an import may even raise SystemExit
        text = error_text(error)
        log.error("project_not_loaded error=%s", text)
        return LoadedProject(None, text)
    log.info("project_loaded graphs=%s", ",".join(source.graph_id for source in graphs.sources))
    return LoadedProject(graphs, None, stores, auth, app)


async def _import(graphs: Graphs) -> None:
    graphs.load()


async def _load_auth(project: Project) -> CustomAuth | None:
    return load_auth(project)


async def _connect() -> Client:
    """A client of Temporal, however long that takes; it reconnects by itself afterwards."""
    options = ClientConfig.load_client_connect_config()
    options.setdefault("target_host", "127.0.0.1:7233")
    attempt = 0
    while True:
        try:
            return await Client.connect(**options)
        except RuntimeError as error:
            delay = _CONNECT_SECONDS[min(attempt, len(_CONNECT_SECONDS) - 1)]
            log.warning("temporal_unreachable error=%s retry_seconds=%s", str(error)[:200], delay)
            await asyncio.sleep(delay)
            attempt += 1


def _flush_traces() -> None:
    """Traces are sent in the background; wait a little for what is still queued."""
    module = sys.modules.get("langsmith.run_trees")
    client = getattr(module, "_CLIENT", None)
    if client is not None:
        try:
            client.flush(timeout=_TRACE_FLUSH_SECONDS)
        except Exception as error:
            log.warning("traces_not_flushed error=%s", type(error).__name__)
