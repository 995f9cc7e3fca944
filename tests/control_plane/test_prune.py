"""Old builds leave the listener's host; what serves or may be rolled back to stays."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.compute.sandbox import ProcessSandbox
from activities.package_installer import PackageInstaller
from activities.prune import PruneActivities
from activities.python_environment import PythonEnvironments
from activities.removal import remove_tree
from settings import Settings
from storage.database import Database
from storage.ids import new_id
from tests.conftest import Workspace
from tests.control_plane.steps import create
from workflows.messages import names
from workflows.messages.prune import PRUNE_WORKFLOW, Prune, PruneBuilds, Pruned

_OLD = 1_000_000_000.0
_MEGABYTE = 2**20


async def test_old_builds_and_unused_environments_are_removed_and_others_stay(
    workspace: Workspace, database: Database, tmp_path: Path
) -> None:
    """Of a listener of the test's own, on whose "host" these folders are."""
    listener_id = await _listener(database, workspace)
    deployment = UUID((await create(workspace.client))["id"])
    environments = {
        name: _folder(tmp_path / "environments" / name) for name in ("used", "old", "older", "new")
    }
    environments["new"].touch()
    half = _folder(tmp_path / "environments" / "half.1234.draft")
    cache = _folder(tmp_path / "caches" / str(workspace.tenant_id))
    os.utime(cache, (_OLD + 5, _OLD + 5))
    os.utime(environments["old"], (_OLD + 9, _OLD + 9))
    revisions = [
        await _built(database, workspace, deployment, listener_id, tmp_path, environments["used"], status)
        for status in ("DEPLOYED", "DEPLOYED", "DEPLOYED", "DEPLOYING", "DEPLOYED", "DEPLOY_FAILED")
    ]
    serving, _, _, rolling_out, _, newest = revisions
    await _set(database, deployment, active_revision_id=serving, latest_revision_id=newest)
    left_by_a_crash = _folder(tmp_path / "revisions" / str(uuid4()) / "0badcafe")
    being_built = _folder(tmp_path / "revisions" / str(newest) / "cafe0000")
    being_built.touch()

    settings = Settings(kept_builds=2, build_cache_bytes=4 * _MEGABYTE + 100_000)
    installer = PackageInstaller(ProcessSandbox(active=False))
    prunes = PruneActivities(database, settings, tmp_path, PythonEnvironments(tmp_path, None, installer))
    pruned = await _heartbeating(prunes.prune, PruneBuilds(str(listener_id)))

    kept = {serving, rolling_out, revisions[4], newest}
    assert {found for found in revisions if await _has_build(database, found)} == kept
    there = {path.parent.name for path in (tmp_path / "revisions").glob("*/build")}
    assert there == {str(found) for found in kept}
    assert being_built.exists() and not left_by_a_crash.exists()
    # Five folders of a megabyte: of those that may go the one that was not used for longest goes.
    assert {name for name, path in environments.items() if path.exists()} == {"used", "old", "new"}
    assert not half.exists() and cache.exists()
    assert pruned == Pruned(builds=3, environments=1)
    again = await _heartbeating(prunes.prune, PruneBuilds(str(listener_id)))
    assert again == Pruned(builds=0, environments=0)


async def test_the_real_listener_is_asked(temporal_client: Client) -> None:
    pruned = await temporal_client.execute_workflow(
        PRUNE_WORKFLOW,
        Prune(),
        id=f"prune-test-{uuid4()}",
        task_queue=names.PLATFORM_QUEUE,
        result_type=Pruned,
    )
    assert pruned.builds >= 0


def test_folders_that_resist_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (folder / "closed").mkdir()
    (folder / "closed" / "file").write_text("x")
    (folder / "closed").chmod(0)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (folder / "link").symlink_to(kept)
    remove_tree(folder)
    assert not folder.exists() and (kept / "file").exists()
    link = tmp_path / "link"
    link.symlink_to(kept)
    remove_tree(link)
    assert (kept / "file").exists()


def _folder(path: Path) -> Path:
    """A folder of a megabyte, long unused."""
    path.mkdir(parents=True)
    (path / "content").write_bytes(os.urandom(_MEGABYTE))
    os.utime(path, (_OLD, _OLD))
    os.utime(path.parent, (_OLD, _OLD))
    return path


async def _built(
    database: Database,
    workspace: Workspace,
    deployment: UUID,
    listener: UUID,
    folder: Path,
    environment: Path,
    status: str,
) -> UUID:
    revision = new_id()
    made = _folder(folder / "revisions" / str(revision) / "build")
    build = {"folder": str(made), "readable": [str(environment)]}
    async with database.transaction() as connection:
        await connection.execute(
            "UPDATE deployments SET listener_id = %s WHERE id = %s", (listener, deployment)
        )
        await connection.execute(
            "INSERT INTO revisions (id, number, tenant_id, deployment_id, source, source_config,"
            " source_revision_config, status, build)"
            " SELECT %s, max(number) + 1, %s, %s, 'internal_source', '{}', '{}', %s, %s FROM revisions"
            " WHERE deployment_id = %s",
            (revision, workspace.tenant_id, deployment, status, Jsonb(build), deployment),
        )
    return revision


async def _listener(database: Database, workspace: Workspace) -> UUID:
    body = {"compute_type": "k8s", "compute_id": str(uuid4()), "compute_config": {"k8s_namespaces": ["a"]}}
    return UUID((await workspace.client.post("/v2/listeners", json=body)).json()["id"])


async def _set(database: Database, deployment: UUID, **values: Any) -> None:
    async with database.connection() as connection:
        for name, value in values.items():
            await connection.execute(
                f"UPDATE deployments SET {name} = %s WHERE id = %s".encode(), (value, deployment)
            )


async def _has_build(database: Database, revision: UUID) -> bool:
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT build FROM revisions WHERE id = %s", (revision,))
        row = await cursor.fetchone()
    assert row is not None
    return row["build"] is not None


async def _heartbeating(activity: Callable[..., Any], argument: Any) -> Any:
    return await ActivityEnvironment().run(activity, argument)
