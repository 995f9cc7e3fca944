"""Tarballs and projects that mean harm: refused or contained, with a status that says what happened."""

import asyncio
import gzip
import io
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from activities.archive import UnsafeArchiveError, extract_project
from storage.database import Database
from tests.conftest import Workspace
from tests.control_plane.projects import ECHO, config, echo, tarball
from tests.control_plane.steps import ask, create, deploy, logs, submit, upload, wait_for_status


def _member(name: str, **attributes: object) -> bytes:
    """A tar.gz with a good file and one more member."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        good = tarfile.TarInfo("good.txt")
        good.size = 4
        tar.addfile(good, io.BytesIO(b"good"))
        member = tarfile.TarInfo(name)
        for attribute, value in attributes.items():
            setattr(member, attribute, value)
        tar.addfile(member)
    return buffer.getvalue()


def _twice() -> bytes:
    first, second = tarball({"a.txt": "one"}), tarball({"a.txt": "two"})
    blocks = gzip.decompress(first)[:1024] + gzip.decompress(second)[:1024] + bytes(1024)
    return gzip.compress(blocks)


def _huge_header() -> bytes:
    """A member whose extended header claims, and is, hundreds of megabytes of zeros."""
    buffer = io.BytesIO()
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 300 * 2**20
    with gzip.open(buffer, "wb", compresslevel=1) as file:
        file.write(header.tobuf())
        for _ in range(300):
            file.write(bytes(2**20))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (_member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "link or a device"),
        (_member("link", type=tarfile.LNKTYPE, linkname="good.txt"), "link or a device"),
        (_member("fifo", type=tarfile.FIFOTYPE), "link or a device"),
        (_member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "link or a device"),
        (_member("/etc/cron.d/x"), "leads out of the project"),
        (_member("../../x"), "leads out of the project"),
        (_member("a/../../x"), "leads out of the project"),
        (_member("/".join("d" * 60)), "folders deep"),
        (_member("x" * 2_000), "unusable file name"),
        (_twice(), "twice"),
        (b"", "not a readable tar.gz"),
        (b"PK\3\4 not a tarball at all", "not a readable tar.gz"),
        (gzip.compress(b"\0" * 4096), "no files"),
        (tarball({"a": b"x" * 2_000})[:-30], "not a readable tar.gz"),
        (tarball({"zeros": bytes(30 * 2**20)}), "too large"),
        (tarball({f"file-{n}": "" for n in range(200)}), "more than 100 members"),
        (_huge_header(), "oversized header"),
    ],
    ids=lambda value: value if isinstance(value, str) else "tar",
)
def test_hostile_archives_are_refused_and_stay_in_their_folder(
    tmp_path: Path, content: bytes, says: str
) -> None:
    archive, folder = tmp_path / "source.tar.gz", tmp_path / "inner" / "project"
    archive.write_bytes(content)
    folder.mkdir(parents=True)
    with pytest.raises(UnsafeArchiveError, match=says):
        extract_project(archive, folder, limit_bytes=20 * 2**20, limit_files=100)
    inside = {path for path in tmp_path.rglob("*") if path.is_relative_to(folder)}
    assert set(tmp_path.rglob("*")) - inside == {archive, folder.parent}
    assert not any(path.is_symlink() for path in inside)
    assert sum(path.stat().st_size for path in inside) <= 21 * 2**20


def test_modes_and_owners_of_members_are_ignored(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("run.sh")
        member.mode, member.uid = 0o6777, 12345
        tar.addfile(member)
    (tmp_path / "source.tar.gz").write_bytes(buffer.getvalue())
    (tmp_path / "project").mkdir()
    extract_project(tmp_path / "source.tar.gz", tmp_path / "project", limit_bytes=1000, limit_files=10)
    found = (tmp_path / "project" / "run.sh").stat()
    assert found.st_mode & 0o7777 == 0o755 and found.st_uid == os.getuid()


async def test_a_hostile_tarball_fails_the_build_with_the_reason(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    path = await upload(workspace.client, deployment["id"], _member("../../x"))
    body = {"source_revision_config": {"source_tarball_path": path}}
    reply = await workspace.client.patch(f"/v2/deployments/{deployment['id']}", json=body)
    found = await wait_for_status(workspace.client, deployment["id"], reply.json()["latest_revision_id"])
    assert found["status"] == "BUILD_FAILED" and "'../../x' leads out" in found["status_message"]


async def test_upload_urls_work_once_for_their_own_deployment_and_within_limits(
    workspace: Workspace, other_workspace: Workspace
) -> None:
    one, two = await create(workspace.client), await create(workspace.client)
    place = (await workspace.client.post(f"/v2/deployments/{one['id']}/upload-url", json={})).json()
    before = await workspace.client.patch(
        f"/v2/deployments/{one['id']}",
        json={"source_revision_config": {"source_tarball_path": place["object_path"]}},
    )
    assert before.status_code == 400 and "Nothing has been uploaded" in before.json()["detail"]
    async with httpx.AsyncClient(trust_env=False) as anybody:
        assert (await anybody.put(place["upload_url"], content=b"")).status_code == 400
        assert (await anybody.put(place["upload_url"], content=b"x")).status_code == 200
        assert (await anybody.put(place["upload_url"], content=b"y")).status_code == 409
        assert (await anybody.put(place["upload_url"][:-3] + "abc", content=b"y")).status_code == 403
    stolen = await workspace.client.patch(
        f"/v2/deployments/{two['id']}",
        json={"source_revision_config": {"source_tarball_path": place["object_path"]}},
    )
    assert stolen.status_code == 400 and "issued for this deployment" in stolen.json()["detail"]
    assert (await other_workspace.client.post(f"/v2/deployments/{one['id']}/upload-url")).status_code == 404


async def test_a_graph_that_forks_leaves_nothing_behind(workspace: Workspace) -> None:
    code = """
import os, time
for detach in (False, True):
    if os.fork() == 0:
        if detach:
            os.setsid()
        if os.fork() == 0:
            time.sleep(3600)
        with open("pids", "a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(3600)
"""
    answer = ECHO.replace('"VERSION"', 'open("pids").read()')
    deployment = await create(workspace.client)
    await deploy(workspace.client, deployment["id"], {"agent.py": code + answer, "langgraph.json": config()})
    pids = [int(line) for line in (await ask(workspace.client, deployment["name"])).split()]
    assert len(pids) == 2 and all(_is_alive(pid) for pid in pids)
    await workspace.client.delete(f"/v2/deployments/{deployment['id']}")
    await _wait(lambda: not any(_is_alive(pid) for pid in pids), "the forked processes to be gone")


async def test_a_graph_that_prints_without_end_is_contained(workspace: Workspace) -> None:
    code = (
        ECHO + "\nimport sys\nfor n in range(300_000):\n    sys.stdout.write(f'{n} ' + 'x' * 200 + '\\n')\n"
    )
    deployment = await create(workspace.client)
    revision_id = await deploy(
        workspace.client, deployment["id"], {"agent.py": code, "langgraph.json": config()}
    )
    assert await ask(workspace.client, deployment["name"]) == "VERSION"
    assert "0 xxx" in await logs(workspace.client, deployment["id"], revision_id, "deploy")


async def test_a_worker_sees_none_of_the_platforms_secrets(workspace: Workspace, database: Database) -> None:
    code = ECHO.replace('"VERSION"', '__import__("json").dumps(dict(__import__("os").environ))')
    deployment = await create(workspace.client)
    await deploy(workspace.client, deployment["id"], {"agent.py": code, "langgraph.json": config()})
    environment = await ask(workspace.client, deployment["name"])
    for name in ("SLIPWAY_SECRET_KEYS", "SLIPWAY_S3_SECRET_ACCESS_KEY", '"DATABASE_URL"', "SLIPWAY_HOME"):
        assert name not in environment
    assert database.url.split("@")[0] not in environment


async def test_a_project_that_hides_the_runtime_fails_clearly(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    files = {**echo(), "temporalio.py": "raise RuntimeError('shadowed')"}
    revision_id = await submit(workspace.client, deployment["id"], files)
    found = await wait_for_status(workspace.client, deployment["id"], revision_id)
    assert found["status"] in ("DEPLOYED", "DEPLOY_FAILED")
    if found["status"] == "DEPLOY_FAILED":
        assert "shadowed" in found["status_message"]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def _wait(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.1)
