"""One set of real servers for the whole session, shared by all xdist workers.

Fixtures
- `stack`          the shared stack (tests/stacks.py: addresses, keys, kill/stop/start of its processes)
- `workspace`      a fresh workspace with its key and an HTTP client, per test
- `database`       storage.database.Database on the shared stack
- `temporal_client` a Temporal client of the shared stack
- `private_stack`  starts a stack of the test's own
- `killable_stack` a stack whose servers tests may stop and kill, one after another

Tests which stop or kill shared processes would disturb others: they take the `killable_stack`, one after another, or,
if they need settings of their own, a `private_stack`. Run with `--dist loadgroup`: what belongs together is grouped
here.
"""

import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest
from pytest import TerminalReporter
from temporalio.client import Client

from storage.database import Database
from storage.tenancy import create_key, create_tenant
from tests.stacks import (
    REPOSITORY,
    Stack,
    end,
    free_port_environment,
    launch,
    make_home,
    running_stack,
    wait_ready,
)

# Fixtures that every worker which uses them would have to start for itself.
_TOGETHER = ("killable_stack", "chat_stack", "api_process")
_RENDEZVOUS = "SLIPWAY_TEST_RENDEZVOUS"


@dataclass(frozen=True)
class Workspace:
    """A workspace that only this test uses."""

    tenant_id: UUID
    api_key: str
    api_url: str
    client: httpx.AsyncClient


def pytest_configure(config: pytest.Config) -> None:
    """The controller of the session names the folder in which its workers find the shared stack."""
    if not hasattr(config, "workerinput") and _RENDEZVOUS not in os.environ:
        folder = make_home("slipway-session-")
        (folder / "controller").write_text(str(os.getpid()))
        os.environ[_RENDEZVOUS] = str(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The controller ends the shared stack, however the session ended."""
    folder = Path(os.environ.get(_RENDEZVOUS, "/nonexistent"))
    if hasattr(config, "workerinput") or not folder.exists():
        return
    if (folder / "controller").read_text() != str(os.getpid()):
        return
    del os.environ[_RENDEZVOUS]
    if (folder / "supervisor").exists():
        end(int((folder / "supervisor").read_text()))
    if os.environ.get("SLIPWAY_TEST_KEEP"):
        return
    shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of a costly fixture run on one of pytest's workers, which sets it up once; else those of a module."""
    for item in items:
        used = getattr(item, "fixturenames", ())
        module = str(item.path.relative_to(REPOSITORY))
        group = next((name for name in _TOGETHER if name in used), module)
        item.add_marker(pytest.mark.xdist_group(group))
    # The longest groups first; the others in their order, which ends with short ones.
    items.sort(key=lambda item: not set(_TOGETHER) & set(getattr(item, "fixturenames", ())))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups are what keeps tests apart that stop each other's servers: their absence must not go unseen."""
    if getattr(session.config.option, "loadgroup", False):
        loose = [item.nodeid for item in session.items if "@" not in item.nodeid]
        if loose:
            raise pytest.UsageError(f"xdist ignores the mark `xdist_group`: {loose[0]} is in no group.")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Why tests were run again: each is a defect of the test or of what it tests."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"run again: {report.nodeid} ({report.when})")
        terminalreporter.line(report.longreprtext[-3000:])


@pytest.fixture(scope="session")
def stack() -> Stack:
    """The shared stack: started by the first test that wants it, whichever worker runs that."""
    folder = Path(os.environ[_RENDEZVOUS])
    described = folder / "stack.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "failed").exists():
            pytest.fail((folder / "failed").read_text(), pytrace=False)
        if not described.exists():
            _start_shared(folder, described)
    return Stack.load(described)


def _start_shared(folder: Path, described: Path) -> None:
    environment = {"SLIPWAY_HOME": str(folder / "home"), **free_port_environment()}
    process = launch(environment, while_pid=int((folder / "controller").read_text()))
    (folder / "supervisor").write_text(str(process.pid))
    try:
        wait_ready(environment, process).save(described)
    except AssertionError as error:
        (folder / "failed").write_text(str(error))
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def private_stack() -> Iterator[Callable[..., Stack]]:
    """Starts a stack of the test's own: `private_stack(SLIPWAY_LOG_LEVEL="DEBUG")`; ended with the test."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(running_stack(**settings))


@pytest.fixture(scope="session")
def killable_stack() -> Iterator[Stack]:
    """Short limits, small files and few slots, so that what dies has much left to do and is missed soon."""
    settings = {
        "SLIPWAY_SWEEP_INTERVAL_SECONDS": "2",
        "SLIPWAY_PROBE_TIMEOUT_SECONDS": "45",
        "SLIPWAY_DRAIN_SECONDS": "5",
        "SLIPWAY_WORKER_SLOTS": "20",
        "SLIPWAY_EXPORT_FILE_TARGET_BYTES": "3000000",
        "SLIPWAY_EXPORT_WORKER_SLOTS": "2",
    }
    with running_stack(**settings) as stack:
        yield stack


@pytest.fixture(scope="session")
async def database(stack: Stack) -> AsyncIterator[Database]:
    async with Database(stack.database_url, 10) as database:
        yield database


@pytest.fixture(scope="session")
async def temporal_client(stack: Stack) -> Client:
    return await Client.connect(stack.temporal_address)


@pytest.fixture
async def workspace(stack: Stack, database: Database) -> AsyncIterator[Workspace]:
    async with new_workspace(stack, database) as workspace:
        yield workspace


@pytest.fixture
async def other_workspace(stack: Stack, database: Database) -> AsyncIterator[Workspace]:
    """A second one, for what one workspace must not see of another."""
    async with new_workspace(stack, database) as workspace:
        yield workspace


@asynccontextmanager
async def new_workspace(stack: Stack, database: Database) -> AsyncIterator[Workspace]:
    async with database.transaction() as connection:
        tenant = await create_tenant(connection, f"test {uuid4().hex[:8]}")
        key = await create_key(connection, tenant.tenant_id, "test")
    client = httpx.AsyncClient(
        base_url=stack.api_url, headers={"X-Api-Key": key}, timeout=60.0, trust_env=False
    )
    async with client:
        yield Workspace(tenant.tenant_id, key, stack.api_url, client)
