"""`slipway up`: the whole platform on one machine (docs/architecture/stack.md)."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import structlog

from settings import Settings
from stack.bootstrap import FirstKey, bootstrap
from stack.child import Child, Status
from stack.connections import Addresses, write_connections
from stack.control import serve_commands
from stack.health import UnhealthyError, check_object_store, check_postgres, check_temporal, connect_temporal
from stack.home import Home, write_atomically
from stack.logs import rotate
from stack.object_store import object_store_program
from stack.platform import platform_programs
from stack.ports import LOOPBACK, PortBook, require_free
from stack.postgres import EmbeddedPostgres
from stack.processes import adopt_orphans, descendants, is_alive, reap_orphans, signal_process
from stack.program import Program
from stack.temporal import temporal_program

log = structlog.get_logger()

_READY_SECONDS = 120.0
_TICK_SECONDS = 5.0
_EXTERNAL_CHECK_SECONDS = 20.0


class StartError(Exception):
    """A part of the stack did not come up; says which, why, and where its log is."""


class Supervisor:
    """Starts servers, prepares them, starts our processes, and keeps all of them until `stop`."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self.home = home
        self.settings = settings
        self.notices: list[str] = []
        self._servers: dict[str, Child] = {}
        self._platform: dict[str, Child] = {}
        self._addresses: Addresses | None = None
        self._started = time.time()
        self._ready = False
        self._tick: asyncio.Task[None] | None = None

    @property
    def addresses(self) -> Addresses:
        assert self._addresses is not None
        return self._addresses

    async def start(self) -> FirstKey:
        """Bring everything up and return the first key.

        Raises:
            PortTakenError: a port of the settings is in use.
            StartError: a part did not come up.
        """
        adopt_orphans()
        self._require_ports()
        self._tick = asyncio.create_task(self._keep_house())
        key = await self._start_servers()
        for program in await platform_programs(self.home, self.settings, self.addresses):
            self._platform[program.name] = self._child(program)
            self._platform[program.name].start()
        await self._all_healthy(self._platform)
        self._ready = True
        self._write_state()
        return key

    async def stop(self) -> None:
        """End our processes first, then the servers they use; nothing that was started survives."""
        self._ready = False
        if self._tick:
            self._tick.cancel()
        await asyncio.gather(*(child.stop() for child in self._platform.values()))
        await asyncio.gather(*(child.stop() for child in self._servers.values()))
        for pid in descendants(os.getpid()):
            signal_process(pid, signal.SIGKILL)
        self._write_state()

    async def control(self, action: str, name: str) -> str:
        """Stop, start or restart one process by name; answers its new status."""
        child = {**self._servers, **self._platform}.get(name)
        if child is None:
            return f"error: no process is called {name}"
        if action == "stop":
            await child.stop()
        elif action == "start":
            child.start()
        elif action == "restart":
            await child.restart()
        else:
            return f"error: unknown action {action}"
        return str(child.status)

    def _require_ports(self) -> None:
        settings = self.settings
        ports = {"SLIPWAY_API_PORT": (settings.api_port, settings.api_host)}
        if settings.temporal_address is None:
            ports["SLIPWAY_TEMPORAL_PORT"] = (settings.temporal_port, LOOPBACK)
            ports["SLIPWAY_TEMPORAL_UI_PORT"] = (settings.temporal_ui_port, LOOPBACK)
        if settings.s3_endpoint_url is None:
            ports["SLIPWAY_S3_PORT"] = (settings.s3_port, LOOPBACK)
        require_free(ports)

    async def _start_servers(self) -> FirstKey:
        """The embedded servers side by side; an external one is only checked."""
        settings, home = self.settings, self.home
        ports = PortBook(home.path / "ports.json")
        postgres_port = ports.choose("postgres") if settings.database_url is None else None
        self._addresses = addresses = Addresses.of(settings, home.credentials(), postgres_port)
        temporal = await connect_temporal(addresses.temporal)

        if settings.temporal_address is None:
            program = temporal_program(home, settings.temporal_port, settings.temporal_ui_port, temporal)
            self._serve(program)
        if settings.s3_endpoint_url is None:
            credentials = home.credentials()
            self._serve(
                object_store_program(home, settings.s3_port, credentials, ports, addresses.object_store)
            )
        postgres = None
        if postgres_port is not None:
            postgres = await asyncio.to_thread(EmbeddedPostgres.prepare, home, postgres_port)
            if postgres.placement.notice:
                self.notices.append(postgres.placement.notice)
            self._serve(postgres.program())

        await self._all_healthy(self._servers)
        if postgres:
            await asyncio.to_thread(postgres.ensure_database)
        await self._check_external(temporal)
        write_connections(home, settings, addresses)
        buckets = [settings.s3_bucket]
        if settings.s3_endpoint_url is None:
            buckets.append(settings.demo_bucket)
        return await bootstrap(home, addresses.database_url, temporal, addresses.object_store, buckets)

    async def _check_external(self, temporal: Any) -> None:
        settings, addresses = self.settings, self.addresses
        if settings.database_url is not None:
            await _answers("DATABASE_URL", lambda: check_postgres(addresses.database_url))
        if settings.temporal_address is not None:
            await _answers("TEMPORAL_ADDRESS", lambda: check_temporal(temporal))
        if settings.s3_endpoint_url is not None:
            await _answers("SLIPWAY_S3_ENDPOINT_URL", lambda: check_object_store(addresses.object_store))

    def _serve(self, program: Program) -> None:
        child = self._child(program)
        self._servers[program.name] = child
        child.start()

    def _child(self, program: Program) -> Child:
        return Child(program, self.home.logs / f"{program.name}.log", self._write_state)

    async def _all_healthy(self, children: dict[str, Child]) -> None:
        healthy = asyncio.create_task(_each_healthy(children))
        watch = asyncio.create_task(self._gives_up(list(children.values())))
        try:
            await asyncio.wait({healthy, watch}, return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
        finally:
            healthy.cancel()
            watch.cancel()

    async def _gives_up(self, children: list[Child]) -> None:
        """Raises StartError once a child crashed three times before it served, or too much time has passed."""
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            for child in children:
                if child.restarts >= 3 and child.status != Status.HEALTHY:
                    raise StartError(_failure(child, "does not start"))
            if time.monotonic() > deadline:
                late = next(child for child in children if child.status != Status.HEALTHY)
                raise StartError(_failure(late, f"does not serve after {_READY_SECONDS:g} s"))
            await asyncio.sleep(0.1)

    async def _keep_house(self) -> None:
        """Bound the logs, and collect orphans that ended."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            children = [*self._servers.values(), *self._platform.values()]
            reap_orphans({child.pid for child in children if child.pid})
            for child in children:
                rotate(child.log_file)

    def _write_state(self) -> None:
        children = [*self._servers.values(), *self._platform.values()]
        state = {
            "ready": self._ready,
            "supervisor": os.getpid(),
            "started_at": self._started,
            "addresses": self._addresses.public() if self._addresses else {},
            "processes": [child.describe() for child in children],
        }
        write_atomically(self.home.state, orjson.dumps(state, option=orjson.OPT_INDENT_2).decode())


async def run_stack(
    home: Home,
    settings: Settings,
    on_ready: Callable[[Supervisor, FirstKey], None],
    while_pid: int | None = None,
) -> None:
    """Run the stack until SIGINT or SIGTERM, or until process `while_pid` ends; `on_ready` once it serves."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # `nohup` says to ignore it
            loop.add_signal_handler(number, stop.set)
    supervisor = Supervisor(home, settings)
    try:
        async with serve_commands(home.path, supervisor.control):
            starting = asyncio.create_task(supervisor.start())
            stopping = asyncio.create_task(_asked_to_stop(stop, while_pid))
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                on_ready(supervisor, starting.result())
                await stopping
            starting.cancel()
            stopping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
    finally:
        await supervisor.stop()


async def _each_healthy(children: dict[str, Child]) -> None:
    await asyncio.gather(*(child.until_healthy() for child in children.values()))


async def _asked_to_stop(stop: asyncio.Event, while_pid: int | None) -> None:
    while not stop.is_set() and (while_pid is None or is_alive(while_pid)):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await stop.wait()


async def _answers(setting: str, check: Callable[[], Awaitable[None]]) -> None:
    deadline = time.monotonic() + _EXTERNAL_CHECK_SECONDS
    while True:
        try:
            return await check()
        except UnhealthyError as error:
            if time.monotonic() > deadline:
                raise StartError(f"The server that {setting} names does not answer. {error}") from None
        await asyncio.sleep(0.5)


def _failure(child: Child, what: str) -> str:
    lines = child.log_file.read_text(errors="replace").splitlines()[-15:] if child.log_file.exists() else []
    tail = "\n".join(f"    {line}" for line in lines)
    return (
        f"{child.program.name} {what}: {child.problem or 'no reason known'}\n{tail}\n  Log: {child.log_file}"
    )
