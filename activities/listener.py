"""A listener: one host's hand of the control plane. It polls its task queue; nothing dials it."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from activities.build import BuildActivities
from activities.compute.process import ProcessCompute
from activities.compute.protocol import Compute
from activities.compute.sandbox import ProcessSandbox, SandboxMissingError
from activities.compute.temporary import TemporaryFolders
from activities.git import GitRepositories
from activities.package_installer import PackageInstaller
from activities.prune import PruneActivities
from activities.push import BranchActivities
from activities.python_environment import PythonEnvironments
from activities.reconcile import Reconciler
from activities.workers import WorkerActivities
from settings import Settings
from storage.database import Database
from storage.listeners import Listener, find_listener
from storage.objects import open_object_store
from storage.secrets import SecretBox, load_secret_box


class ListenerError(Exception):
    """This process cannot be the listener that it was told to be."""


@contextlib.asynccontextmanager
async def open_listener(settings: Settings, database: Database) -> AsyncIterator[list[Callable[..., Any]]]:
    """The activities of the listener's queue, while its compute runs what the database says should run.

    Raises:
        ListenerError: no such listener, or another process is it already; or projects cannot be confined as demanded.
    """
    listener_id = UUID(settings.listener_id)
    async with database.connection() as connection:
        listener = await find_listener(connection, listener_id)
    if listener is None:
        raise ListenerError(f"There is no listener {listener_id}: create it with POST /v2/listeners.")
    folder = settings.home / "listeners" / str(listener_id)
    folder.mkdir(parents=True, exist_ok=True)
    secrets = load_secret_box(
        settings.secret_keys.get_secret_value() if settings.secret_keys else None, settings.home
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(_alone(folder / "lock"))
        objects = await stack.enter_async_context(open_object_store(settings))
        sandbox = _sandbox(settings)
        temporary = TemporaryFolders(folder / "temporary-folder")
        compute = await stack.enter_async_context(
            _compute(listener, database, secrets, settings, folder, sandbox, temporary)
        )
        reconciling = asyncio.create_task(Reconciler(database, listener_id, _version(), compute).run())
        stack.push_async_callback(_cancel, reconciling)
        environments = PythonEnvironments(folder, settings.runtime_path, PackageInstaller(sandbox))
        builds = BuildActivities(
            database, secrets, objects, settings, folder, sandbox, temporary, environments
        )
        prunes = PruneActivities(database, settings, folder, environments)
        workers = WorkerActivities(database, compute)
        branches = BranchActivities(database, GitRepositories(settings, sandbox), temporary)
        yield [
            builds.build,
            branches.look,
            prunes.prune,
            workers.start,
            workers.watch,
            workers.stop,
            workers.remove_deployment,
        ]


def _sandbox(settings: Settings) -> ProcessSandbox:
    try:
        return ProcessSandbox.open(settings)
    except SandboxMissingError as error:
        raise ListenerError(str(error)) from error


def _compute(
    listener: Listener,
    database: Database,
    secrets: SecretBox,
    settings: Settings,
    folder: Path,
    sandbox: ProcessSandbox,
    temporary: TemporaryFolders,
) -> Compute:
    if listener.compute_type == "k8s":
        # Here, because the client's thousands of models take seconds to import.
        from activities.compute.kubernetes import KubernetesCompute

        namespaces = listener.compute_config.get("k8s_namespaces")
        return KubernetesCompute(database, secrets, settings, namespaces)
    return ProcessCompute(database, secrets, settings, folder, sandbox, temporary)


@contextlib.contextmanager
def _alone(path: Path) -> Any:
    """Hold the listener's lock, which the system releases when this process dies."""
    with path.open("a+") as file:
        _lock(file, path)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _lock(file: IO[str], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ListenerError(f"Another process is this listener already: see {path}.") from None


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _version() -> str:
    try:
        return version("slipway")
    except PackageNotFoundError:
        return "0"
