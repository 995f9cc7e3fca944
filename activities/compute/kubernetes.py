"""Revision workers as Deployments of a Kubernetes cluster, through the official client.

No real cluster has seen this: it was checked against a stand-in of the API server (docs/OPERATIONS.md).
"""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

import structlog
from kubernetes_asyncio import client, config
from kubernetes_asyncio.client import ApiException

from activities.compute.kubernetes_objects import (
    LISTENER_LABEL,
    SET_LABEL,
    object_name,
    render_deployment,
    render_secret,
    render_service,
)
from activities.compute.protocol import CannotStartError
from activities.compute.worker_environment import worker_environment
from settings import Settings
from storage.database import Database
from storage.deployments import Deployment
from storage.revisions import Revision
from storage.secrets import SecretBox
from storage.worker_sets import WorkerSet

log = structlog.get_logger()

_DEFAULT_NAMESPACE = "default"
_POLL_SECONDS = 1.0
# What a pod waits for that no patience cures.
_HOPELESS = {
    "ErrImagePull": "the image cannot be pulled",
    "ImagePullBackOff": "the image cannot be pulled",
    "InvalidImageName": "the image's name is invalid",
    "CreateContainerConfigError": "the container's configuration is wrong",
    "CreateContainerError": "the container cannot be made",
    "CrashLoopBackOff": "the worker ends again and again",
}


class KubernetesCompute:
    """`async with KubernetesCompute(...)`: the cluster of the pod it runs in, or of `settings.kubeconfig`."""

    def __init__(
        self, database: Database, secrets: SecretBox, settings: Settings, namespaces: list[str] | None
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._settings = settings
        self._namespaces = namespaces or [_DEFAULT_NAMESPACE]
        self._client: Any = None
        self._places: dict[str, str] = {}

    async def __aenter__(self) -> "KubernetesCompute":
        configuration = client.Configuration()
        path: Path | None = self._settings.kubeconfig
        if path is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(config_file=str(path), client_configuration=configuration)
        self._client = client.ApiClient(configuration)
        self._core = client.CoreV1Api(self._client)
        self._apps = client.AppsV1Api(self._client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The cluster goes on without its listener."""
        await self._client.close()

    async def start(self, worker_set: WorkerSet, deployment: Deployment, revision: Revision) -> None:
        """Implements `Compute.start`."""
        if "image_uri" not in revision.source_revision_config:
            raise CannotStartError(
                "A Kubernetes listener runs images: give 'source_revision_config.image_uri'."
            )
        namespace = self._namespace(deployment)
        variables, _ = worker_environment(
            self._settings,
            self._secrets,
            self._database.url,
            deployment,
            revision,
            worker_set,
        )
        try:
            await _put(self._core, "namespaced_secret", namespace, render_secret(worker_set, variables))
            await _put(self._core, "namespaced_service", namespace, render_service(worker_set))
            await _put(
                self._apps, "namespaced_deployment", namespace, render_deployment(worker_set, revision)
            )
        except ApiException as error:
            if error.status in (400, 403, 404, 422):
                raise CannotStartError(f"The cluster refuses the workers: {_message(error)}") from error
            raise
        self._places[str(worker_set.id)] = namespace

    async def scale(self, worker_set: WorkerSet) -> None:
        """Implements `Compute.scale`."""
        namespace = await self._place(str(worker_set.id))
        if namespace is None:
            return
        name = object_name(str(worker_set.id))
        found = await self._apps.read_namespaced_deployment_scale(name, namespace)
        if found.spec.replicas != worker_set.replicas:
            body = {"spec": {"replicas": worker_set.replicas}}
            await self._apps.patch_namespaced_deployment_scale(name, namespace, body)

    async def running(self) -> list[str]:
        """Implements `Compute.running`."""
        found: list[str] = []
        selector = f"{LISTENER_LABEL}={UUID(self._settings.listener_id)}"
        for namespace in self._namespaces:
            listed = await self._apps.list_namespaced_deployment(namespace, label_selector=selector)
            for item in listed.items:
                worker_set_id = item.metadata.labels[SET_LABEL]
                self._places[worker_set_id] = namespace
                found.append(worker_set_id)
        return found

    async def failure(self, worker_set_id: str) -> str | None:
        """Implements `Compute.failure`."""
        namespace = await self._place(worker_set_id)
        if namespace is None:
            return None
        pods = await self._core.list_namespaced_pod(namespace, label_selector=f"{SET_LABEL}={worker_set_id}")
        for pod in pods.items:
            for status in (pod.status.container_statuses or []) if pod.status else []:
                waiting = status.state.waiting if status.state else None
                if waiting and waiting.reason in _HOPELESS:
                    return f"{waiting.reason}: {_HOPELESS[waiting.reason]}. {waiting.message or ''}".strip()
        return None

    async def stop(self, worker_set_id: str, drain_seconds: float) -> None:
        """Implements `Compute.stop`. The pods' own grace period lets them drain."""
        namespace = await self._place(worker_set_id)
        if namespace is None:
            return
        name = object_name(worker_set_id)
        await _gone(self._apps.delete_namespaced_deployment(name, namespace, propagation_policy="Background"))
        selector = f"{SET_LABEL}={worker_set_id}"
        deadline = asyncio.get_running_loop().time() + drain_seconds + 60
        while (await self._core.list_namespaced_pod(namespace, label_selector=selector)).items:
            if asyncio.get_running_loop().time() > deadline:
                log.warning("pods_remain", worker_set_id=worker_set_id, namespace=namespace)
                break
            await asyncio.sleep(_POLL_SECONDS)
        await _gone(self._core.delete_namespaced_service(name, namespace))
        await _gone(self._core.delete_namespaced_secret(name, namespace))
        self._places.pop(worker_set_id, None)

    async def remove_deployment(self, deployment_id: str, revision_ids: list[str]) -> None:
        """Implements `Compute.remove_deployment`: all objects went with their worker sets."""

    def _namespace(self, deployment: Deployment) -> str:
        wanted = deployment.source_config.get("listener_config", {}).get("k8s_namespace")
        if wanted is None:
            return self._namespaces[0]
        if wanted not in self._namespaces:
            raise CannotStartError(f"Namespace '{wanted}' is not one of the listener's: {self._namespaces}.")
        return str(wanted)

    async def _place(self, worker_set_id: str) -> str | None:
        """The namespace of a set; None if the cluster does not have it."""
        if worker_set_id not in self._places:
            await self.running()
        return self._places.get(worker_set_id)


async def _put(api: Any, kind: str, namespace: str, body: Any) -> None:
    """Create an object, or bring the one that exists to this shape."""
    try:
        await getattr(api, f"create_{kind}")(namespace, body)
    except ApiException as error:
        if error.status != 409:
            raise
        await getattr(api, f"patch_{kind}")(body.metadata.name, namespace, body)


async def _gone(call: Any) -> None:
    try:
        await call
    except ApiException as error:
        if error.status != 404:
            raise


def _message(error: ApiException) -> str:
    """The reason in the API server's answer, bounded."""
    return str(error.body or error.reason)[:500]
