"""`slipway up`: starts, tells, stops, starts again. What disturbs others runs on a stack of its own."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
import s3fs

from stack.processes import descendants, is_alive
from tests.control_plane.processes import workers_of
from tests.control_plane.projects import echo
from tests.control_plane.steps import create, deploy
from tests.stacks import (
    END_SECONDS,
    REPOSITORY,
    Stack,
    end,
    free_port_environment,
    launch,
    make_home,
    wait_ready,
    wait_until,
)

PROCESSES = {"temporal", "postgres", "s3", "api", "worker-platform", "worker-listener"}


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Home and ports of a stack that the test starts itself."""
    folder = make_home()
    yield {"SLIPWAY_HOME": str(folder / "home"), **free_port_environment()}
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def _status(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "stack.cli", "status", "--json"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_signals_end_everything_and_the_next_start_finds_all_data_and_the_same_key(
    environment: dict[str, str],
) -> None:
    first = launch(environment, while_pid=os.getpid())
    stack = wait_ready(environment, first)
    _s3(stack).pipe(f"{stack.bucket}/kept", b"bytes")
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS value")
    _end_by_signal(environment, first, signal.SIGINT)

    second = launch(environment, while_pid=os.getpid())
    again = wait_ready(environment, second)
    try:
        assert (again.api_key, again.tenant_id) == (stack.api_key, stack.tenant_id)
        with psycopg.connect(again.database_url) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (42,)
        assert _s3(again).cat(f"{again.bucket}/kept") == b"bytes"
        screens = (Path(environment["SLIPWAY_HOME"] + ".up.log")).read_text()
        assert screens.count(stack.api_key) == 1, "the key is shown in clear at the first start only"
        _end_by_signal(environment, second, signal.SIGTERM)
    finally:
        end(second.pid)


def _end_by_signal(
    environment: dict[str, str], process: "subprocess.Popen[bytes]", number: signal.Signals
) -> None:
    started = descendants(process.pid)
    assert len(started) >= len(PROCESSES)
    process.send_signal(number)
    assert process.wait(timeout=END_SECONDS) == 0
    assert [pid for pid in started if is_alive(pid)] == []
    assert _status(environment).returncode == 1


async def test_nothing_survives_when_the_supervisor_is_killed(environment: dict[str, str]) -> None:
    process = launch(environment, while_pid=os.getpid())
    stack = wait_ready(environment, process)
    async with httpx.AsyncClient(
        base_url=stack.api_url, headers={"X-Api-Key": stack.api_key}, timeout=60, trust_env=False
    ) as client:
        revision_id = await deploy(client, (await create(client))["id"], echo())
    [worker] = workers_of(revision_id)
    started = descendants(process.pid)
    assert worker in started
    process.kill()
    process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in started), 30, "all children to end")
    assert _status(environment).returncode == 1


def test_status_names_every_process_and_address(stack: Stack) -> None:
    result = stack.slipway("status", "--json")
    status = json.loads(result.stdout)
    assert (result.returncode, status["ready"]) == (0, True)
    assert {process["name"] for process in status["processes"]} == PROCESSES
    assert all(is_alive(process["pid"]) for process in status["processes"])
    addresses = status["addresses"]
    with httpx.Client(trust_env=False, timeout=30) as client:
        assert client.get(addresses["api_url"] + "/readyz").json()["ready"] is True
        assert client.get(addresses["docs_url"]).status_code == 200
        assert client.get(addresses["temporal_ui_url"]).status_code == 200
    assert addresses["s3_endpoint_url"] == stack.s3_endpoint_url
    text = result.stdout
    assert stack.s3_secret_access_key not in text
    assert stack.database_url not in text


def test_status_of_a_home_without_a_stack_is_not_ready(environment: dict[str, str]) -> None:
    result = _status(environment)
    assert (result.returncode, json.loads(result.stdout)["ready"]) == (1, False)


@pytest.mark.parametrize(
    "setting", ["SLIPWAY_API_PORT", "SLIPWAY_TEMPORAL_PORT", "SLIPWAY_TEMPORAL_UI_PORT", "SLIPWAY_S3_PORT"]
)
def test_a_taken_port_is_named_with_its_setting(environment: dict[str, str], setting: str) -> None:
    with socket.create_server(("127.0.0.1", int(environment[setting]))):
        result = subprocess.run(
            [sys.executable, "-m", "stack.cli", "up"],
            env={**os.environ, **environment},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert result.returncode == 1
    assert environment[setting] in result.stderr
    assert setting in result.stderr
    assert "Traceback" not in result.stderr


def test_a_second_up_on_the_same_home_is_refused(stack: Stack) -> None:
    result = stack.slipway("up")
    assert result.returncode == 1
    assert str(stack.supervisor_pid) in result.stderr
    assert stack.status()["ready"] is True


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_a_killed_process_is_started_again(killable_stack: Stack, name: str) -> None:
    old = killable_stack.kill(name)
    killable_stack.wait_restarted(name, old)
    assert killable_stack.process(name)["restarts"] >= 1
    wait_until(lambda: killable_stack.status()["ready"], 60, "the stack to be ready again")


def test_a_crash_is_reported(killable_stack: Stack) -> None:
    old = killable_stack.kill("api")
    killable_stack.wait_restarted("api", old)
    output = killable_stack.home.with_name(killable_stack.home.name + ".up.log").read_text()
    assert "process_ended" in output
    assert "SIGKILL" in output


def test_a_stopped_process_stays_down_until_it_is_started(killable_stack: Stack) -> None:
    killable_stack.stop("worker-listener")
    assert killable_stack.process("worker-listener")["status"] == "stopped"
    assert killable_stack.slipway("status", "--json").returncode == 1
    killable_stack.start("worker-listener")
    assert killable_stack.slipway("status", "--json").returncode == 0


def test_secrets_are_readable_by_their_owner_only(stack: Stack) -> None:
    home = stack.home
    for name in ("api-key", "connections.env", "credentials.json", "secret-keys", "control.sock"):
        path = home / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, name
    for name in ("logs", "objects", "temporal", "postgres"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o700, name
    assert stat.S_IMODE(home.stat().st_mode) in (0o711, 0o700)


def test_a_wrong_database_password_is_refused(stack: Stack) -> None:
    url = stack.database_url.replace(stack.database_url.split("@")[0].rpartition(":")[2], "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)


def test_the_platforms_database_role_is_no_superuser(stack: Stack) -> None:
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        durable = [
            connection.execute(f"SHOW {name}".encode()).fetchone() for name in ("fsync", "synchronous_commit")
        ]
    assert row == (False, True, False)
    assert durable == [("on",), ("on",)]


def test_servers_listen_on_loopback_only(stack: Stack) -> None:
    inodes = {inode for pid in descendants(stack.supervisor_pid) for inode in _socket_inodes(pid)}
    offences = []
    for table, loopback in (("tcp", "0100007F"), ("tcp6", "00000000000000000000000001000000")):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if fields[3] == "0A" and fields[9] in inodes and address != loopback:
                offences.append(f"{table} {address}:{int(port, 16)}")
    assert offences == []


def _socket_inodes(pid: int) -> Iterator[str]:
    """None of a process that has ended meanwhile: builds of other tests come and go."""
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for link in links:
        try:
            target = str(link.readlink())
        except (FileNotFoundError, ProcessLookupError):
            continue
        if target.startswith("socket:["):
            yield target[8:-1]


def _s3(stack: Stack) -> s3fs.S3FileSystem:
    return s3fs.S3FileSystem(
        key=stack.s3_access_key_id,
        secret=stack.s3_secret_access_key,
        client_kwargs={"endpoint_url": stack.s3_endpoint_url},
        skip_instance_cache=True,
        use_listings_cache=False,
    )
