"""The Kubernetes objects of a worker set, rendered from the client's typed models."""

from typing import Any

from kubernetes_asyncio.client import (
    V1Container,
    V1Deployment,
    V1DeploymentSpec,
    V1EnvVar,
    V1EnvVarSource,
    V1ExecAction,
    V1LabelSelector,
    V1LocalObjectReference,
    V1ObjectMeta,
    V1PodSpec,
    V1PodTemplateSpec,
    V1Probe,
    V1ResourceRequirements,
    V1Secret,
    V1SecretEnvSource,
    V1SecretKeySelector,
    V1SecurityContext,
    V1Service,
    V1ServiceSpec,
)
from kubernetes_asyncio.client import V1EnvFromSource as EnvFrom

from storage.revisions import Revision
from storage.worker_sets import WorkerSet

# Where an image keeps its project; the image has slipway-runtime and the project's packages installed.
PROJECT_CONFIG = "/app/langgraph.json"
_COMMAND = ["python", "-m", "slipway_runtime"]
# Beyond the drain: until the process itself has ended.
_EXIT_SECONDS = 30
LISTENER_LABEL = "slipway.dev/listener"
SET_LABEL = "slipway.dev/worker-set"


def object_name(worker_set_id: str) -> str:
    """Name of every object of a set."""
    return f"slipway-{worker_set_id}"


def labels(worker_set: WorkerSet) -> dict[str, str]:
    """How the objects of a set are found again."""
    return {
        "app.kubernetes.io/managed-by": "slipway",
        LISTENER_LABEL: str(worker_set.listener_id),
        SET_LABEL: str(worker_set.id),
        "slipway.dev/deployment": str(worker_set.deployment_id),
        "slipway.dev/revision": str(worker_set.revision_id),
    }


def render_secret(worker_set: WorkerSet, variables: dict[str, str]) -> V1Secret:
    """Every environment variable of the workers: some are secret, and one place is easier to keep right than two."""
    return V1Secret(
        api_version="v1",
        kind="Secret",
        metadata=_metadata(worker_set),
        type="Opaque",
        string_data={**variables, "SLIPWAY_PROJECT_CONFIG": PROJECT_CONFIG},
    )


def render_service(worker_set: WorkerSet) -> V1Service:
    """A headless service: workers dial out and listen on nothing, but operators can find their pods by name."""
    return V1Service(
        api_version="v1",
        kind="Service",
        metadata=_metadata(worker_set),
        spec=V1ServiceSpec(cluster_ip="None", selector={SET_LABEL: str(worker_set.id)}),
    )


def render_deployment(worker_set: WorkerSet, revision: Revision) -> V1Deployment:
    """The workers, with everything of the revision's resource_spec that concerns them."""
    spec = revision.source_config.get("resource_spec", {})
    selector = {SET_LABEL: str(worker_set.id)}
    metadata = _metadata(worker_set)
    pod_labels = {**spec.get("labels", {}), **labels(worker_set)}
    return V1Deployment(
        api_version="apps/v1",
        kind="Deployment",
        metadata=metadata,
        spec=V1DeploymentSpec(
            replicas=worker_set.replicas,
            selector=V1LabelSelector(match_labels=selector),
            template=V1PodTemplateSpec(
                metadata=V1ObjectMeta(labels=pod_labels, annotations=spec.get("annotations")),
                spec=V1PodSpec(
                    containers=[_worker(worker_set, revision, spec), *spec.get("sidecars", [])],
                    init_containers=spec.get("init_containers"),
                    volumes=spec.get("volumes"),
                    service_account_name=spec.get("service_account_name"),
                    # User code has no business with the cluster's API.
                    automount_service_account_token="service_account_name" in spec,
                    image_pull_secrets=[
                        V1LocalObjectReference(name=secret["name"])
                        for secret in spec.get("image_pull_secrets", [])
                    ]
                    or None,
                    termination_grace_period_seconds=int(worker_set.drain_seconds) + _EXIT_SECONDS,
                ),
            ),
        ),
    )


def _worker(worker_set: WorkerSet, revision: Revision, spec: dict[str, Any]) -> V1Container:
    importable = V1ExecAction(command=["python", "-c", "import slipway_runtime"])
    alive = V1ExecAction(command=["test", "-d", "/proc/1"])
    return V1Container(
        name="worker",
        image=revision.source_revision_config["image_uri"],
        command=_COMMAND,
        env_from=[EnvFrom(secret_ref=V1SecretEnvSource(name=object_name(str(worker_set.id))))],
        env=[_reference(reference) for reference in revision.secret_references or []] or None,
        resources=_resources(spec),
        volume_mounts=spec.get("volume_mounts"),
        security_context=V1SecurityContext(allow_privilege_escalation=False),
        # Whether the graphs import is asked by the rollout itself, through Temporal; these ask for less.
        startup_probe=V1Probe(_exec=importable, period_seconds=5, timeout_seconds=10, failure_threshold=24),
        liveness_probe=V1Probe(_exec=alive, period_seconds=15, timeout_seconds=5, failure_threshold=6),
        readiness_probe=V1Probe(_exec=alive, period_seconds=15, timeout_seconds=5, failure_threshold=6),
    )


def _reference(reference: dict[str, str]) -> V1EnvVar:
    key = V1SecretKeySelector(name=reference["secret_name"], key=reference["secret_key"])
    return V1EnvVar(name=reference["name"], value_from=V1EnvVarSource(secret_key_ref=key))


def _resources(spec: dict[str, Any]) -> V1ResourceRequirements | None:
    """Workers are the queue of the contract: its fields win over the general ones; a limit is twice the request."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    cpu = spec.get("queue_cpu") or spec.get("cpu")
    memory = spec.get("queue_memory_mb") or spec.get("memory_mb")
    cpu_limit = spec.get("queue_cpu_limit") or spec.get("cpu_limit") or (cpu and 2 * cpu)
    memory_limit = spec.get("queue_memory_limit_mb") or spec.get("memory_limit_mb") or (memory and 2 * memory)
    if cpu:
        requests["cpu"] = f"{cpu:g}"
    if memory:
        requests["memory"] = f"{memory}Mi"
    if cpu_limit:
        limits["cpu"] = f"{cpu_limit:g}"
    if memory_limit:
        limits["memory"] = f"{memory_limit}Mi"
    return (
        V1ResourceRequirements(requests=requests or None, limits=limits or None)
        if requests or limits
        else None
    )


def _metadata(worker_set: WorkerSet) -> V1ObjectMeta:
    return V1ObjectMeta(name=object_name(str(worker_set.id)), labels=labels(worker_set))
