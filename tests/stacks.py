"""A running stack for tests: the real `slipway up` on a home and ports of its own."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from dotenv import dotenv_values

from stack.ports import is_free
from stack.processes import is_alive

REPOSITORY = Path(__file__).parent.parent
# Longer than the supervisor itself waits, so that its own reason is what a failed start shows.
START_SECONDS = 150.0
# The servers one after another may each take the time that the supervisor gives them.
END_SECONDS = 90.0
_PORT_SETTINGS = ("SLIPWAY_API_PORT", "SLIPWAY_TEMPORAL_PORT", "SLIPWAY_TEMPORAL_UI_PORT", "SLIPWAY_S3_PORT")


@dataclass(frozen=True)
class Stack:
    """Addresses and keys of a running stack, and a hand on its processes.

    Process names: temporal, postgres, s3, api, worker-platform, worker-listener.
    """

    home: Path
    supervisor_pid: int
    api_url: str
    temporal_address: str
    temporal_ui_url: str
    database_url: str
    s3_endpoint_url: str
    s3_access_key_id: str
    s3_secret_access_key: str
    bucket: str
    demo_bucket: str
    api_key: str
    tenant_id: str
    environment: dict[str, str]

    def status(self) -> dict[str, Any]:
        """What `slipway status --json` prints."""
        result = self.slipway("status", "--json")
        return dict(json.loads(result.stdout))

    def process(self, name: str) -> dict[str, Any]:
        """The supervisor's newest record of one process: pid, status, restarts, problem, log."""
        state = json.loads((self.home / "state.json").read_text())
        return next(process for process in state["processes"] if process["name"] == name)

    def pid(self, name: str) -> int:
        pid = self.process(name)["pid"]
        assert pid is not None, f"{name} does not run"
        return int(pid)

    def kill(self, name: str) -> int:
        """`kill -9` a process; the supervisor starts it again. Returns the id it had."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_restarted(self, name: str, old_pid: int, timeout_seconds: float = 60.0) -> None:
        """Wait until a killed process serves again under another id."""

        def restarted() -> bool:
            process = self.process(name)
            return process["pid"] not in (None, old_pid) and process["status"] == "healthy"

        wait_until(restarted, timeout_seconds, f"{name} to serve again")

    def stop(self, name: str) -> None:
        """Take a process down until `start`."""
        self.slipway("stop", name, check=True)

    def start(self, name: str, timeout_seconds: float = 60.0) -> None:
        """Start a process that was stopped and wait until it serves."""
        self.slipway("start", name, check=True)
        wait_until(lambda: self.process(name)["status"] == "healthy", timeout_seconds, f"{name} to serve")

    def slipway(self, *arguments: str, check: bool = False, timeout_seconds: float = 120.0) -> Any:
        """Run the command line against this stack; returns the completed process."""
        result = subprocess.run(
            [sys.executable, "-m", "stack.cli", *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
        )
        if check and result.returncode:
            raise AssertionError(f"slipway {' '.join(arguments)} failed: {result.stdout}{result.stderr}")
        return result

    def save(self, path: Path) -> None:
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps({**asdict(self), "home": str(self.home)}))
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Stack":
        fields = json.loads(path.read_text())
        return cls(**{**fields, "home": Path(fields["home"])})


def make_home(prefix: str = "slipway-test-") -> Path:
    """A folder for a home that PostgreSQL's system user may walk through (pytest's own folders are closed)."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    folder.chmod(0o711)
    return folder


def free_port_environment() -> dict[str, str]:
    """Settings of ports that are free now."""
    ports: set[int] = set()
    while len(ports) < len(_PORT_SETTINGS):
        port = random.randint(15_000, 19_999)
        if is_free(port):
            ports.add(port)
    return {name: str(port) for name, port in zip(_PORT_SETTINGS, ports, strict=True)}


def launch(environment: dict[str, str], *, while_pid: int | None = None) -> "subprocess.Popen[bytes]":
    """Start `slipway up`; its output goes to `up.log` beside the home."""
    home = Path(environment["SLIPWAY_HOME"])
    arguments = ["--while-pid", str(while_pid)] if while_pid else []
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLIPWAY_")}
    for name in ("DATABASE_URL", "TEMPORAL_ADDRESS"):
        inherited.pop(name, None)
    with home.with_name(home.name + ".up.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "stack.cli", "up", *arguments],
            # Building the chat's agent takes seconds of both cores: only the tests of the chat want it.
            env={**inherited, "SLIPWAY_CHAT_DEPLOY": "false", **environment},
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def wait_ready(environment: dict[str, str], process: "subprocess.Popen[bytes]") -> Stack:
    """The stack, once it serves.

    Raises:
        AssertionError: it ended or did not serve in time; holds what it printed.
    """
    home = Path(environment["SLIPWAY_HOME"])
    state_file = home / "state.json"

    def ready() -> bool:
        if process.poll() is not None:
            raise AssertionError(f"`slipway up` ended with {process.returncode}:\n{_output(home)}")
        if not state_file.exists():
            return False
        state = json.loads(state_file.read_text())
        return bool(state["ready"]) and state["supervisor"] == process.pid

    try:
        wait_until(ready, START_SECONDS, "the stack")
    except AssertionError:
        end(process.pid)
        raise
    return _describe(home, process.pid, environment)


def end(pid: int, timeout_seconds: float = END_SECONDS) -> None:
    """Stop a stack by its supervisor's id, by force if it does not end."""
    try:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not _exists(pid), timeout_seconds, f"process {pid} to end")
    except ProcessLookupError:
        return
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise


@contextmanager
def running_stack(**settings: str) -> Iterator[Stack]:
    """A stack of its own, ended and removed at the end of the block."""
    folder = make_home()
    environment = {"SLIPWAY_HOME": str(folder / "home"), **free_port_environment(), **settings}
    process = launch(environment, while_pid=os.getpid())
    try:
        yield wait_ready(environment, process)
    finally:
        end(process.pid)
        shutil.rmtree(folder, ignore_errors=True)


def wait_until(condition: Callable[[], bool], timeout_seconds: float, what: str) -> None:
    """Wait for a condition; AssertionError at the deadline."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"Waited {timeout_seconds:g} s in vain for {what}.")
        time.sleep(0.05)


def _describe(home: Path, pid: int, environment: dict[str, str]) -> Stack:
    state = json.loads((home / "state.json").read_text())
    connections = {name: value or "" for name, value in dotenv_values(home / "connections.env").items()}
    with psycopg.connect(connections["DATABASE_URL"]) as connection:
        row = connection.execute("SELECT id FROM tenants ORDER BY created_at, id LIMIT 1").fetchone()
    assert row is not None
    return Stack(
        home=home,
        supervisor_pid=pid,
        api_url=state["addresses"]["api_url"],
        temporal_address=state["addresses"]["temporal_address"],
        temporal_ui_url=state["addresses"]["temporal_ui_url"],
        database_url=connections["DATABASE_URL"],
        s3_endpoint_url=connections["SLIPWAY_S3_ENDPOINT_URL"],
        s3_access_key_id=connections["SLIPWAY_S3_ACCESS_KEY_ID"],
        s3_secret_access_key=connections["SLIPWAY_S3_SECRET_ACCESS_KEY"],
        bucket=connections["SLIPWAY_S3_BUCKET"],
        demo_bucket=connections["SLIPWAY_DEMO_BUCKET"],
        api_key=(home / "api-key").read_text().strip(),
        tenant_id=str(row[0]),
        environment=environment,
    )


def _exists(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return is_alive(pid)


def _output(home: Path) -> str:
    log = home.with_name(home.name + ".up.log")
    return log.read_text(errors="replace")[-6000:] if log.exists() else "(no output)"
