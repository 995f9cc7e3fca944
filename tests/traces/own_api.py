"""An API process of the tests' own on the shared stack's servers, for what the shared one should not go through."""

import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from stack.ports import is_free
from tests.runtime.harness import eventually
from tests.stacks import REPOSITORY, Stack
from tests.traces.database_proxy import DatabaseProxy

START_SECONDS = 120.0
HELD_BYTES = 1_000_000


@dataclass
class ApiProcess:
    """`slipway api` behind a proxy of the database; works on one body at a time and holds little."""

    stack: Stack
    proxy: DatabaseProxy
    log: Path
    url: str = ""
    _process: "subprocess.Popen[bytes] | None" = field(default=None)

    async def ensure_running(self) -> None:
        """Start it, if it was not yet, or was killed."""
        if self._process is not None and self._process.poll() is None:
            return
        port = next(port for port in iter(lambda: random.randint(20_000, 24_999), 0) if is_free(port))
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "SLIPWAY_API_PORT": str(port),
            "DATABASE_URL": self.proxy.url,
            "SLIPWAY_INGEST_CONCURRENCY": "1",
            "SLIPWAY_INGEST_HELD_BYTES": str(HELD_BYTES),
            "SLIPWAY_KEY_CACHE_SECONDS": "60",
        }
        self._process = _launch({**os.environ, **self.stack.environment, **settings}, self.log)

        async def serves() -> bool:
            assert self._process is not None and self._process.poll() is None, self.log.read_text()
            async with httpx.AsyncClient(base_url=self.url, trust_env=False) as client:
                try:
                    return (await client.get("/info")).status_code == 200
                except httpx.TransportError:
                    return False

        await eventually(serves, START_SECONDS)

    def kill(self) -> None:
        """At once, as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def peak_bytes(self) -> int:
        """The most memory that the process had resident since `forget_peak`."""
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")

    @property
    def _pid(self) -> int:
        assert self._process is not None
        return self._process.pid


@dataclass(frozen=True)
class OwnApi:
    """The process, and a client that sends the key of the test's workspace."""

    process: ApiProcess
    client: httpx.AsyncClient


def _launch(environment: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "stack.cli", "api"],
            env=environment,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
