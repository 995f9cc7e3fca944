"""Projects reach their own files and nothing else of the listener's host (docs/architecture/sandbox.md)."""

import errno
import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from activities.compute import landlock
from activities.compute.sandbox import ProcessSandbox, SandboxMissingError
from activities.subprocesses import ToolFailedError, run_tool
from settings import Settings
from storage.database import Database
from tests.conftest import Workspace
from tests.control_plane.hostile import BUILD_COMMAND, INSTALL_COMMAND, PLACES, hostile
from tests.control_plane.projects import ECHO, config, echo
from tests.control_plane.steps import ask, create, deploy
from tests.stacks import Stack

needs_landlock = pytest.mark.skipif(
    landlock.abi() < landlock.FULL_ABI,
    reason=f"this kernel offers Landlock ABI {landlock.abi()}, {landlock.FULL_ABI} is needed: NOTHING is confined here",
)


# No "there is none": each thing must be there, and closed.
_DENIED = {f"denied {code}" for code in (errno.EPERM, errno.EACCES, errno.EXDEV)}


@needs_landlock
async def test_a_hostile_project_reaches_nothing_but_its_own(
    stack: Stack, workspace: Workspace, other_workspace: Workspace, database: Database
) -> None:
    victim = await create(other_workspace.client)
    await deploy(other_workspace.client, victim["id"], {**echo("unharmed"), "secret.txt": "theirs"})
    theirs = await _folder(database, UUID(victim["id"]))
    listener = stack.pid("worker-listener")
    secret = [stack.home / name for name in ("secret-keys", "api-key", "connections.env", "credentials.json")]
    secret += [theirs / "project" / "secret.txt", stack.home / "temporal" / "temporal.db"]
    packages = Path(os.environ.get("UV_CACHE_DIR") or Path.home() / ".cache" / "uv")
    foreign = [stack.home, theirs / "project", theirs / "environment", Path("/tmp"), packages]
    password = urlsplit(stack.database_url).password
    assert password is not None
    words = [stack.api_key, stack.s3_secret_access_key, password]

    deployment = await create(
        workspace.client, source_config={"install_command": INSTALL_COMMAND, "build_command": BUILD_COMMAND}
    )
    await deploy(
        workspace.client,
        deployment["id"],
        hostile(secret, foreign, words, stack.home / "control.sock", listener),
    )
    found = json.loads(await ask(workspace.client, deployment["name"]))

    assert found.keys() == PLACES
    assert all(len(attempts) > 25 for attempts in found.values())
    done = {
        (place, attempt): outcome
        for place, attempts in found.items()
        for attempt, outcome in attempts.items()
        if outcome not in _DENIED
    }
    assert done == {}
    assert stack.pid("worker-listener") == listener
    assert await ask(other_workspace.client, victim["name"]) == "unharmed"


_LIVELY = ECHO.replace('"VERSION"', "await __import__('asyncio').to_thread(do_all)").replace(
    "async def answer",
    """
import multiprocessing, os, pathlib, sqlite3, subprocess, tempfile, urllib.request
from multiprocessing import shared_memory

def double(number):
    return number * 2

def do_all():
    done = []
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("x")
        done.append("tempfile")
    sqlite3.connect("notes.db").execute("create table if not exists notes (text)")
    pathlib.Path(os.environ["HOME"], "note").write_text("x")
    pathlib.Path("a").mkdir(exist_ok=True), pathlib.Path("b").mkdir(exist_ok=True)
    pathlib.Path("a/x").write_text("x")
    os.rename("a/x", "b/x")
    done.append("files")
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        done.append(f"pool {pool.map(double, [21])}")
    with multiprocessing.get_context("fork").Manager() as manager:
        manager.dict()["a"] = 1
    memory = shared_memory.SharedMemory(create=True, size=10)
    memory.close(), memory.unlink()
    done.append("shared memory")
    done.append(subprocess.check_output("echo shell > /dev/null && echo shell", shell=True, text=True))
    done.append(str(urllib.request.urlopen(os.environ["LANGSMITH_ENDPOINT"].replace("/api/v1", "/healthz")).status))
    return ", ".join(done)

async def answer""",
    1,
)


async def test_what_projects_honestly_do_still_works(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    await deploy(workspace.client, deployment["id"], {"agent.py": _LIVELY, "langgraph.json": config()})
    answer = await ask(workspace.client, deployment["name"])
    assert answer == "tempfile, files, pool [42], shared memory, shell\n, 200"


def test_a_listener_that_must_confine_and_cannot_refuses_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 5)
    with pytest.raises(SandboxMissingError, match=r"require.*ABI 6 \(Linux 6.12\).*offers 5"):
        ProcessSandbox.open(Settings(process_sandbox="require"))
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert not ProcessSandbox.open(Settings(process_sandbox="auto")).active
    assert ProcessSandbox.open(Settings(process_sandbox="off")).policy() is None


@needs_landlock
async def test_a_home_within_the_system_is_left_out_and_named_folders_let_in(tmp_path: Path) -> None:
    """As with a home in /opt: the folders beside it stay readable, the home does not."""
    home, models, scratch = tmp_path / "host" / "home", tmp_path / "host" / "models", tmp_path / "scratch"
    for folder in (home, models, scratch):
        folder.mkdir(parents=True)
        (folder / "file").write_text(folder.name)
    settings = Settings(
        home=home, sandbox_read_paths=str(tmp_path / "host"), sandbox_write_paths=str(scratch)
    )
    policy = ProcessSandbox.open(settings).policy()

    async def run(command: str) -> list[str]:
        lines: list[str] = []
        await run_tool(
            ["sh", "-c", command],
            cwd=tmp_path,
            environment=dict(os.environ),
            on_line=lines.append,
            policy=policy,
        )
        return lines

    assert await run(f"cat {models}/file; echo more >> {scratch}/file") == ["models"]
    for refused in (f"cat {home}/file", f"echo x > {models}/file", f"echo x > {tmp_path}/x"):
        with pytest.raises(ToolFailedError, match="denied"):
            await run(refused)
    assert "Permission" in str(
        await run(f"{sys.executable} -c 'print(1)' 2>&1 || true; ls {home} 2>&1 || true")
    )


@needs_landlock
async def test_what_a_tool_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = f"setsid sh -c 'echo $$ > {note}; exec sleep 3600' & while [ ! -s {note} ]; do :; done"
    await run_tool(["sh", "-c", command], cwd=tmp_path, environment=dict(os.environ), on_line=print)
    assert not Path(f"/proc/{note.read_text().strip()}").exists()


async def _folder(database: Database, deployment_id: UUID) -> Path:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT build->>'folder' AS folder FROM revisions WHERE deployment_id = %s AND build IS NOT NULL",
            (deployment_id,),
        )
        row = await cursor.fetchone()
    assert row is not None
    return Path(row["folder"])
