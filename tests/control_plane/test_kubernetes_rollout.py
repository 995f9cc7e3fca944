"""Whole rollouts through a real Kubernetes listener. The stand-in of the cluster runs what it is given as processes."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.conftest import Workspace
from tests.control_plane.cluster import Cluster, kubeconfig, serving
from tests.control_plane.projects import echo
from tests.control_plane.steps import ask, creation, unique, wait_for_status
from tests.exports.waiting import until
from tests.stacks import REPOSITORY, Stack

_IMAGES = {"registry.example/agent:1": "one", "registry.example/agent:2": "two"}


class _RunningCluster(Cluster):
    """Runs one process for each Deployment, with its Secret as environment and the image's project."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._projects = {image: folder / version for image, version in _IMAGES.items()}
        for image, project in self._projects.items():
            project.mkdir()
            for name, content in echo(_IMAGES[image]).items():
                (project / name).write_text(content)

    def created(self, namespace: str, kind: str, body: dict[str, Any]) -> None:
        if kind != "deployments":
            return
        name = body["metadata"]["name"]
        [container] = body["spec"]["template"]["spec"]["containers"]
        [source] = container["envFrom"]
        secret = self.objects[(namespace, "secrets", source["secretRef"]["name"])]
        project = self._projects[container["image"]] / "langgraph.json"
        assert container["command"] == ["python", "-m", "slipway_runtime"]
        self._processes[name] = subprocess.Popen(
            [sys.executable, *container["command"][1:]],
            env={**secret["stringData"], "SLIPWAY_PROJECT_CONFIG": str(project)},
            cwd=project.parent,
            stdin=subprocess.DEVNULL,
        )

    def deleted(self, namespace: str, kind: str, name: str) -> None:
        if kind == "deployments":
            self._processes.pop(name).terminate()

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()


@asynccontextmanager
async def _listener(stack: Stack, listener_id: str, access: Path) -> AsyncIterator[None]:
    """`slipway worker listener`, as it is started beside a cluster."""
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "stack.cli", "worker", "listener", "--listener-id", listener_id],
        env={**os.environ, **stack.environment, "SLIPWAY_KUBECONFIG": str(access)},
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.timeout(300)
async def test_images_are_rolled_out_replaced_and_removed_on_a_cluster(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    client = workspace.client
    body = {
        "compute_type": "k8s",
        "compute_id": str(uuid4()),
        "compute_config": {"k8s_namespaces": ["agents"]},
    }
    listener = (await client.post("/v2/listeners", json=body)).json()
    cluster = _RunningCluster(tmp_path)
    try:
        async with serving(cluster) as address:
            (tmp_path / "kubeconfig").write_text(kubeconfig(address))
            async with _listener(stack, listener["id"], tmp_path / "kubeconfig"):
                await _roll_out(workspace, listener["id"], cluster)
                seen = (await client.get(f"/v2/listeners/{listener['id']}")).json()
                assert seen["version"] and seen["updated_at"] > listener["updated_at"]
    finally:
        cluster.end()
    assert cluster.refused == []


async def _roll_out(workspace: Workspace, listener_id: str, cluster: Cluster) -> None:
    client = workspace.client
    request = creation(
        unique("image"),
        source="external_docker",
        source_config={"listener_id": listener_id},
        source_revision_config={"image_uri": "registry.example/agent:1"},
    )
    deployment = (await client.post("/v2/deployments", json=request)).json()
    path = f"/v2/deployments/{deployment['id']}"
    found = await wait_for_status(client, deployment["id"], deployment["latest_revision_id"])
    assert found["status"] == "DEPLOYED", found
    assert await ask(client, deployment["name"]) == "one"

    change = {"source_revision_config": {"image_uri": "registry.example/agent:2"}}
    second = (await client.patch(path, json=change)).json()["latest_revision_id"]
    found = await wait_for_status(client, deployment["id"], second)
    assert found["status"] == "DEPLOYED", found
    assert await ask(client, deployment["name"]) == "two"

    async def kinds() -> list[str]:
        await asyncio.sleep(0)
        return sorted(kind for _, kind, _ in cluster.objects)

    async def only_the_new_one() -> bool:
        return await kinds() == ["deployments", "secrets", "services"]

    async def nothing() -> bool:
        return await kinds() == []

    await until(only_the_new_one)
    assert (await client.delete(path)).status_code == 204
    await until(nothing)
