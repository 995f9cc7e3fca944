"""The embedded Temporal server: the development server on a file database, tuned."""

import os
import signal
from pathlib import Path

from temporalio.client import Client

from stack.health import check_temporal
from stack.home import Home
from stack.program import Program
from stack.tools import tool

# Without the poll rates every hand-off waits about 25 ms more after some 20 operations per second; one partition
# halves p95 with few pollers and keeps priorities strict.
DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "history.visibilityProcessorMaxPollRPS": "2000",
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    "history.maxInFlightUpdates": "1000",
    "matching.enableFairness": "true",
    # One Worker Deployment per deployment of ours: by default there may be 100.
    "matching.maxDeployments": "10000",
}
_PRAGMAS = {"journal_mode": "wal", "synchronous": "normal"}


def temporal_program(home: Home, port: int, ui_port: int, client: Client) -> Program:
    """The server on loopback `port`, its UI on `ui_port`; `client` is connected to it and asks for its health."""
    database = home.temporal_database
    database.parent.mkdir(mode=0o700, exist_ok=True)
    command = [str(tool("temporal")), "server", "start-dev"]
    command += ["--ip", "127.0.0.1", "--port", str(port), "--ui-port", str(ui_port)]
    command += ["--db-filename", str(database), "--log-level", "warn", "--ui-disable-news-fetch"]
    for name, value in _PRAGMAS.items():
        command += ["--sqlite-pragma", f"{name}={value}"]
    for name, value in DYNAMIC_CONFIG.items():
        command += ["--dynamic-config-value", f"{name}={value}"]
    return Program(
        name="temporal",
        command=command,
        environment=_environment(database.parent),
        check=lambda _pid, _since: check_temporal(client),
        stop_seconds=10.0,
        death_signal=signal.SIGTERM,
    )


def _environment(folder: Path) -> dict[str, str]:
    # A home of its own: the command must not read the operator's Temporal profiles.
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(folder)}
