"""The Kubernetes compute against a stand-in of the cluster's API server that checks every object's schema."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.fernet import Fernet

from activities.compute.kubernetes import KubernetesCompute
from activities.compute.protocol import CannotStartError
from settings import Settings
from storage.database import Database
from storage.deployments import Deployment
from storage.revisions import Revision
from storage.secrets import SecretBox
from storage.worker_sets import WorkerSet
from tests.control_plane.cluster import Cluster, kubeconfig, serving

_NOW = datetime.now(UTC)
_SPEC: dict[str, Any] = {
    "cpu": 0.5,
    "memory_mb": 512,
    "memory_limit_mb": 2048,
    "labels": {"team": "a"},
    "annotations": {"note": "b"},
    "service_account_name": "runner",
    "image_pull_secrets": [{"name": "registry"}],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
    "volume_mounts": [{"name": "scratch", "mountPath": "/scratch"}],
    "sidecars": [{"name": "proxy", "image": "proxy:1", "env": [{"name": "A", "value": "b"}]}],
    "init_containers": [{"name": "prepare", "image": "prepare:1", "command": ["true"]}],
}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def compute(cluster: Cluster, tmp_path: Path) -> AsyncIterator[KubernetesCompute]:
    async with serving(cluster) as address:
        (tmp_path / "kubeconfig").write_text(kubeconfig(address))
        settings = Settings(kubeconfig=tmp_path / "kubeconfig", listener_id=str(_LISTENER))
        database = Database.__new__(Database)
        database.url = "postgresql://platform:secret@db.example/slipway"
        async with KubernetesCompute(database, _BOX, settings, ["agents", "other"]) as compute:
            yield compute


_BOX = SecretBox([Fernet.generate_key().decode()])
_LISTENER = uuid4()


def _parts(**source_config: Any) -> tuple[WorkerSet, Deployment, Revision]:
    tenant_id, deployment_id, revision_id = uuid4(), uuid4(), uuid4()
    config = {"resource_spec": _SPEC, **source_config}
    common: dict[str, Any] = {
        "tenant_id": tenant_id,
        "source": "external_docker",
        "source_config": config,
        "source_revision_config": {"image_uri": "registry.example/agent@sha256:" + "0" * 64},
        "secrets": _BOX.encrypt({"TOKEN": "hush"}),
        "secret_references": [{"name": "KEY", "secret_name": "keys", "secret_key": "key"}],
        "created_at": _NOW,
        "updated_at": _NOW,
    }
    deployment = Deployment(
        id=deployment_id,
        name="agent",
        display_name=None,
        status="READY",
        deployment_tier=None,
        compute_tier=None,
        database_tier=None,
        shareable=False,
        route_through_gateway=False,
        listener_id=_LISTENER,
        latest_revision_id=revision_id,
        active_revision_id=None,
        tracer_session_id=None,
        worker_credentials=_BOX.encrypt({"password": "pw", "tracing_key": "slw_key"}),
        deleted_at=None,
        **common,
    )
    revision = Revision(
        id=revision_id,
        deployment_id=deployment_id,
        number=1,
        status="DEPLOYING",
        status_message=None,
        build=None,
        **common,
    )
    return (
        WorkerSet(uuid4(), tenant_id, deployment_id, revision_id, _LISTENER, "running", 2, 60.0, []),
        deployment,
        revision,
    )


async def test_a_worker_set_becomes_objects_that_the_schemas_accept(
    cluster: Cluster, compute: KubernetesCompute
) -> None:
    worker_set, deployment, revision = _parts()
    await compute.start(worker_set, deployment, revision)
    await compute.start(worker_set, deployment, revision)
    assert cluster.refused == []
    name = f"slipway-{worker_set.id}"
    assert set(cluster.objects) == {("agents", kind, name) for kind in ("deployments", "secrets", "services")}
    spec = cluster.objects["agents", "deployments", name]["spec"]
    pod = spec["template"]["spec"]
    worker = pod["containers"][0]
    assert spec["replicas"] == 2 and worker["image"].startswith("registry.example/agent@")
    assert worker["resources"] == {
        "requests": {"cpu": "0.5", "memory": "512Mi"},
        "limits": {"cpu": "1", "memory": "2048Mi"},
    }
    assert worker["env"] == [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}}]
    assert [container["name"] for container in pod["containers"]] == ["worker", "proxy"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}] and pod["serviceAccountName"] == "runner"
    assert pod["terminationGracePeriodSeconds"] >= 60 and pod["volumes"] == [
        {"name": "scratch", "emptyDir": {}}
    ]
    assert spec["template"]["metadata"]["labels"]["team"] == "a"
    variables = cluster.objects["agents", "secrets", name]["stringData"]
    assert variables["TOKEN"] == "hush" and variables["SLIPWAY_REVISION_ID"] == str(revision.id)
    assert variables["SLIPWAY_WORKER_SET_ID"] == str(worker_set.id)
    assert "platform" not in variables["SLIPWAY_WORKER_DATABASE_URL"]
    assert "hush" not in str(cluster.objects["agents", "deployments", name])


async def test_sets_are_found_again_scaled_and_stopped(cluster: Cluster, compute: KubernetesCompute) -> None:
    worker_set, deployment, revision = _parts(listener_config={"k8s_namespace": "other"})
    await compute.start(worker_set, deployment, revision)
    compute._places.clear()
    assert await compute.running() == [str(worker_set.id)]
    await compute.scale(replace(worker_set, replicas=5))
    name = f"slipway-{worker_set.id}"
    assert cluster.objects["other", "deployments", name]["spec"]["replicas"] == 5
    await compute.stop(str(worker_set.id), 1.0)
    await compute.stop(str(worker_set.id), 1.0)
    assert cluster.objects == {} and await compute.running() == []


async def test_pods_that_cannot_start_say_why(cluster: Cluster, compute: KubernetesCompute) -> None:
    worker_set, deployment, revision = _parts()
    await compute.start(worker_set, deployment, revision)
    assert await compute.failure(str(worker_set.id)) is None
    cluster.waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    failure = await compute.failure(str(worker_set.id))
    assert failure == "ImagePullBackOff: the image cannot be pulled. no such image"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"listener_config": {"k8s_namespace": "foreign"}}, "not one of the listener's"),
        ({"resource_spec": {"sidecars": [{"nome": "x"}]}}, "The cluster refuses"),
    ],
)
async def test_what_the_cluster_refuses_is_a_clear_failure(
    compute: KubernetesCompute, config: dict[str, Any], says: str
) -> None:
    worker_set, deployment, revision = _parts(**config)
    with pytest.raises(CannotStartError, match=says):
        await compute.start(worker_set, deployment, revision)


async def test_a_project_without_an_image_is_refused(compute: KubernetesCompute) -> None:
    worker_set, deployment, revision = _parts()
    with pytest.raises(CannotStartError, match="image_uri"):
        await compute.start(worker_set, deployment, replace(revision, source_revision_config={}))
    assert isinstance(worker_set.id, UUID)
