"""A stack with the chat's agent deployed, and a browser. One stack for all tests of this folder."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, async_playwright

from tests.stacks import REPOSITORY, Stack, running_stack, wait_until

WEB = REPOSITORY / "web"
DEPLOY_SECONDS = 240.0
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# Nothing but the page under test is asked for, and root may start the browser.
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def chat_stack() -> Iterator[Stack]:
    """A stack on which the chat's agent is deployed; local callers need no key.

    With SLIPWAY_TEST_CHAT_STACK, the path of a file that `Stack.save` wrote, one that runs already.
    """
    if path := os.environ.get("SLIPWAY_TEST_CHAT_STACK"):
        yield Stack.load(Path(path))
        return
    with running_stack(SLIPWAY_CHAT_DEPLOY="true", SLIPWAY_CHAT_WITHOUT_KEY="true") as stack:
        wait_until(lambda: _answers(stack), DEPLOY_SECONDS, "the chat's agent")
        yield stack


def _answers(stack: Stack) -> bool:
    try:
        return httpx.get(f"{stack.api_url}/api/threads", trust_env=False, timeout=5.0).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
async def chat(chat_stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A client of /api/threads that sends no key."""
    async with httpx.AsyncClient(
        base_url=f"{chat_stack.api_url}/api/threads", trust_env=False, timeout=30.0
    ) as client:
        yield client


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Headless Chromium from the system; CI installs it."""
    executable = next((path for name in _CHROMIUM if (path := shutil.which(name))), None)
    assert executable, "No Chromium: install it, for example with `apt-get install chromium`."
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=_ARGUMENTS)
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
def web() -> Path:
    """The folder of the page's source, with what its lock file names installed."""
    installed = WEB / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (WEB / "package-lock.json").stat().st_mtime:
        # Not `npm ci`: it refuses a lock file that lacks packages for other platforms, which some registries lack.
        subprocess.run(["npm", "install", "--no-fund", "--no-audit"], cwd=WEB, check=True, timeout=300)
    return WEB
