"""Slipway beside the servers that people use today: one machine, one run, the phases of `bench.runs` in turns.

    SLIPWAY_HOME=.slipway python -m bench.peers [--rounds 3] [--phases "wait, 1 client" …]
    SLIPWAY_HOME=.slipway python -m bench.peers --aegra-database postgresql://user:password@host:port/empty_database

Needs a running stack. Deploys `bench/project` to it as `bench-peers`. Each peer is installed from PyPI into an
environment of its own in a temporary folder, serves the same project on a free port of loopback, and is ended
by its process id: the development server of `langgraph-cli[inmem]` (in memory, ten jobs at once) and, given an empty
database with the extension uuid-ossp (the embedded PostgreSQL has none), the open-source alternative Aegra in its
newest release for this Python. Servers take turns phase by phase, idle ones stay up. Prints one JSON object per
measurement, then a table of medians with the ratio of each peer's to ours.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console

from bench.runs import PHASES, body, new_thread
from settings import Settings, load_settings
from stack.demo.deploying import deploy
from stack.demo.steps import Steps
from stack.home import API_KEY_FILE
from stack.ports import is_free

_PROJECT = Path(__file__).parent / "project"
_START_SECONDS = 120.0
_PHASES = [
    "wait, 1 client",
    "stateless wait, 1 client",
    "wait, 8 clients",
    "20 instant runs queued on one thread",
    "10 runs of 100 ms queued on one thread",
]
# What a phase is compared by: less is better.
_FIGURES = ("p50_ms", "seconds")


@dataclass(frozen=True)
class Server:
    name: str
    url: str
    headers: dict[str, str]


@contextmanager
def development_server(folder: Path) -> Iterator[Server]:
    """`langgraph dev`."""
    python = _install(folder, "langgraph-cli[inmem]")
    port = _free_port()
    command = [str(python.parent / "langgraph"), "dev", "--no-browser", "--no-reload", "--port", str(port)]
    environment = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    with _serving(folder, [*command, "--n-jobs-per-worker", "10"], environment, port, "/ok") as url:
        yield Server(f"langgraph dev, {_version(python, 'langgraph-api')}", url, {})


@contextmanager
def aegra(folder: Path, database_url: str) -> Iterator[Server]:
    """Aegra on an empty database."""
    python = _install(folder, "aegra-api", "greenlet")  # its SQLAlchemy needs it, and does not say so
    port = _free_port()
    command = [str(python), "-m", "uvicorn", "aegra_api.main:app", "--host", "127.0.0.1", "--port", str(port)]
    environment = {
        "DATABASE_URL": database_url,
        "AEGRA_CONFIG": "langgraph.json",
        "LOG_LEVEL": "WARNING",
        "ENV_MODE": "PRODUCTION",
    }
    with _serving(folder, [*command, "--log-level", "warning"], environment, port, "/health") as url:
        yield Server(f"Aegra, {_version(python, 'aegra-api')}", url, {})


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--aegra-database", help="URL of an empty database; without it Aegra is left out")
    parser.add_argument("--phases", nargs="+", default=_PHASES, choices=list(PHASES))
    options = parser.parse_args()
    settings = load_settings()
    with ExitStack() as running, tempfile.TemporaryDirectory(prefix="bench-peers-") as temporary:
        servers = [await slipway(settings)]
        servers.append(running.enter_context(development_server(Path(temporary) / "dev")))
        if options.aegra_database:
            peer = aegra(Path(temporary) / "aegra", options.aegra_database)
            servers.append(running.enter_context(peer))
        measured: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for round_number in range(options.rounds):
            for phase in options.phases:
                for server in servers:
                    figures = await _measure(server, phase)
                    print(
                        json.dumps({"round": round_number, "server": server.name, "phase": phase, **figures})
                    )
                    for figure in _FIGURES:
                        if isinstance(value := figures.get(figure), float):
                            measured[phase][server.name].append(value)
        _table([server.name for server in servers], measured)


async def slipway(settings: Settings) -> Server:
    key = (settings.home / API_KEY_FILE).read_text().strip()
    async with httpx.AsyncClient(
        base_url=settings.api_url, headers={"X-Api-Key": key}, timeout=60, trust_env=False
    ) as api:
        deployed = await deploy(Steps(Console(stderr=True)), api, "bench-peers", _PROJECT)
    return Server("Slipway", deployed["source_config"]["custom_url"], {"X-Api-Key": key})


async def _measure(server: Server, phase: str) -> dict[str, float | str]:
    """The phase's figures; of a server that refuses or loses, what it said instead."""
    async with httpx.AsyncClient(
        base_url=server.url,
        headers=server.headers,
        timeout=120.0,
        limits=httpx.Limits(max_connections=64),
        trust_env=False,
    ) as client:
        try:
            warm_up = await client.post(
                f"/threads/{await new_thread(client)}/runs/wait", json=body("echo", "warm up")
            )
            warm_up.raise_for_status()
            return {name: round(value, 2) for name, value in (await PHASES[phase](client)).items()}
        except (httpx.HTTPError, KeyError, TypeError) as error:
            return {"failed": f"{type(error).__name__}: {error}"[:300]}


def _table(names: list[str], measured: dict[str, defaultdict[str, list[float]]]) -> None:
    ours, *peers = names
    print("\n| phase | " + " | ".join(names) + " |\n| --- |" + " --- |" * len(names))
    for phase, by_server in measured.items():
        unit = "ms" if "wait" in phase else "s"
        if not by_server[ours]:
            continue
        base = statistics.median(by_server[ours])
        cells = [f"{base:.4g} {unit}"]
        for name in peers:
            values = by_server[name]
            median = statistics.median(values) if values else None
            cells.append("failed" if median is None else f"{median:.4g} {unit} ({median / base:.1f} x)")
        print(f"| {phase} | " + " | ".join(cells) + " |")


def _install(folder: Path, *requirements: str) -> Path:
    """A copy of the project with an environment that has `requirements`; its Python."""
    shutil.copytree(_PROJECT, folder)
    uv = str(Path(sys.executable).parent / "uv")
    python = folder / ".venv" / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / ".venv")], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *requirements], check=True)
    return python


def _version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def _serving(
    folder: Path, command: list[str], environment: dict[str, str], port: int, health: str
) -> Iterator[str]:
    """The server's address, once it answers; it is ended afterwards."""
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        give_up = time.monotonic() + _START_SECONDS
        while not _answers(url + health):
            if process.poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"{command[0]} does not serve:\n{(folder / 'log').read_text()[-3000:]}")
            time.sleep(0.2)
        yield url
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _free_port() -> int:
    return next(port for port in range(24_000, 25_000) if is_free(port))


if __name__ == "__main__":
    asyncio.run(main())
