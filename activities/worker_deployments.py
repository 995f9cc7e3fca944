"""Temporal Worker Deployments: which revision a deployment's runs go to (deployment = deployment id, build id =
revision id). The SDK has no high-level client for this yet, so these are the raw calls."""

import asyncio

from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.workflowservice.v1 import (
    DeleteWorkerDeploymentRequest,
    DeleteWorkerDeploymentVersionRequest,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

# A version exists for the server from the first poll of its workers on.
_REGISTRATION_SECONDS = 40.0
_UNREGISTERED = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)


class VersionMissingError(Exception):
    """No worker of the revision polls the deployment's queue."""


class WorkerDeployments:
    """Routing of deployments' runs. Every method may be repeated."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def set_current(self, deployment_id: str, revision_id: str) -> None:
        """Send every run to a revision, and end any ramp.

        Raises:
            VersionMissingError: its workers did not poll within 40 s.
        """
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace=self._client.namespace,
            deployment_name=deployment_id,
            build_id=revision_id,
            ignore_missing_task_queues=True,
        )
        deadline = asyncio.get_running_loop().time() + _REGISTRATION_SECONDS
        while True:
            try:
                await self._client.workflow_service.set_worker_deployment_current_version(request)
                break
            except RPCError as error:
                if error.status not in _UNREGISTERED:
                    raise
                if asyncio.get_running_loop().time() > deadline:
                    raise VersionMissingError(
                        "The new workers do not poll for runs; the deploy logs show what they printed."
                    ) from error
            await asyncio.sleep(0.1)
        # A ramp that is left behind to a version without workers would park the runs it catches.
        await self.clear_ramp(deployment_id)

    async def set_ramp(self, deployment_id: str, revision_id: str, percent: float) -> None:
        """Send `percent` of the threads to a revision that is not the current one."""
        await self._client.workflow_service.set_worker_deployment_ramping_version(
            SetWorkerDeploymentRampingVersionRequest(
                namespace=self._client.namespace,
                deployment_name=deployment_id,
                build_id=revision_id,
                percentage=percent,
                ignore_missing_task_queues=True,
            )
        )

    async def clear_ramp(self, deployment_id: str) -> None:
        """Send nothing to any revision but the current one."""
        description = await self._client.workflow_service.describe_worker_deployment(
            DescribeWorkerDeploymentRequest(namespace=self._client.namespace, deployment_name=deployment_id)
        )
        routing = description.worker_deployment_info.routing_config
        if not routing.HasField("ramping_deployment_version") and routing.ramping_version_percentage == 0:
            return
        await self._client.workflow_service.set_worker_deployment_ramping_version(
            SetWorkerDeploymentRampingVersionRequest(
                namespace=self._client.namespace,
                deployment_name=deployment_id,
                build_id="",
                percentage=0,
                ignore_missing_task_queues=True,
            )
        )

    async def clear_current(self, deployment_id: str) -> None:
        """Send runs nowhere: they wait, as the deployment is about to go."""
        try:
            await self._client.workflow_service.set_worker_deployment_current_version(
                SetWorkerDeploymentCurrentVersionRequest(
                    namespace=self._client.namespace,
                    deployment_name=deployment_id,
                    build_id="",
                    ignore_missing_task_queues=True,
                    allow_no_pollers=True,
                )
            )
        except RPCError as error:
            if error.status not in _UNREGISTERED:
                raise

    async def terminate(self, workflow_id: str) -> None:
        """End a workflow that has nothing left to work for; one that has ended is fine."""
        try:
            await self._client.get_workflow_handle(workflow_id).terminate("The deployment was deleted.")
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise

    async def delete_schedule(self, schedule_id: str) -> None:
        """Remove a schedule; one that is gone is fine."""
        try:
            await self._client.get_schedule_handle(schedule_id).delete()
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise

    async def delete(self, deployment_id: str) -> None:
        """Remove what Temporal still lists of a deployment whose workers are gone; what cannot go yet ages out."""
        service, namespace = self._client.workflow_service, self._client.namespace
        try:
            description = await service.describe_worker_deployment(
                DescribeWorkerDeploymentRequest(namespace=namespace, deployment_name=deployment_id)
            )
            for summary in description.worker_deployment_info.version_summaries:
                version = summary.deployment_version
                await service.delete_worker_deployment_version(
                    DeleteWorkerDeploymentVersionRequest(
                        namespace=namespace,
                        deployment_version=WorkerDeploymentVersion(
                            deployment_name=version.deployment_name, build_id=version.build_id
                        ),
                        skip_drainage=True,
                    )
                )
            await service.delete_worker_deployment(
                DeleteWorkerDeploymentRequest(namespace=namespace, deployment_name=deployment_id)
            )
        except RPCError as error:
            if error.status not in _UNREGISTERED:
                raise
