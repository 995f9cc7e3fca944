"""An API process of the test's own on the shared stack's servers, for what the shared one should not go through."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from stack.ports import is_free
from tests.conftest import Workspace
from tests.runtime.harness import eventually
from tests.stacks import REPOSITORY, Stack

START_SECONDS = 90.0


@dataclass(frozen=True)
class OwnApi:
    """`client` sends the workspace's key."""

    url: str
    client: httpx.AsyncClient
    process: "subprocess.Popen[bytes]"
    log: Path

    def peak_bytes(self) -> int:
        """The most memory that the process ever had resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def forget_peak(self) -> None:
        """Begin to measure `peak_bytes` anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@asynccontextmanager
async def own_api(stack: Stack, workspace: Workspace, **settings: str) -> AsyncIterator[OwnApi]:
    """`slipway api` with further settings, ready to serve; ended with the block."""
    port = next(port for port in iter(lambda: random.randint(20_000, 24_999), 0) if is_free(port))
    environment = {**os.environ, **stack.environment, "SLIPWAY_API_PORT": str(port), **settings}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "api.log"
        process = _launch(environment, log)
        url = f"http://127.0.0.1:{port}"
        headers = {"X-Api-Key": workspace.api_key}
        client = httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False)
        try:
            async with client:

                async def serves() -> bool:
                    assert process.poll() is None, log.read_text()
                    try:
                        return (await client.get("/info")).status_code == 200
                    except httpx.TransportError:
                        return False

                await eventually(serves, START_SECONDS)
                yield OwnApi(url, client, process, log)
        finally:
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, 20)
            finally:
                process.kill()


def _launch(environment: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "stack.cli", "api"],
            env=environment,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
