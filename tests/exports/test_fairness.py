"""A workspace with many runs waiting does not hold up another one's."""

import asyncio
from functools import partial
from typing import Any
from uuid import uuid4

from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from stack.temporal import DYNAMIC_CONFIG
from stack.tools import tool
from tests.exports.waiting import until
from tests.exports.world import World
from workflows.export import ExportWorkflow
from workflows.messages import names
from workflows.messages.export import (
    EXPORT_WORKFLOW,
    ExportInput,
    ExportPolicy,
    RunExport,
    RunExportResult,
)

POLICY = ExportPolicy(window=40)


async def test_tenants_take_turns_for_the_slots_of_exports() -> None:
    """One tenant has 40 runs waiting when the other's two arrive; those are not served last."""
    served: list[str] = []

    async def run(request: RunExport) -> RunExportResult:
        served.append(request.export.tenant_id)
        await asyncio.sleep(0.02)
        return RunExportResult("COMPLETED")

    waiting = {"busy": 40, "small": 2}
    *records, execute = World(run, **waiting).activities()
    flags = [f"--dynamic-config-value={name}={value}" for name, value in DYNAMIC_CONFIG.items()]
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(tool("temporal")), dev_server_extra_args=flags
    )
    async with (
        environment,
        Worker(
            environment.client,
            task_queue=names.PLATFORM_QUEUE,
            workflows=[ExportWorkflow],
            activities=records,
        ),
    ):
        exports = []
        for tenant, runs in waiting.items():
            handle = await environment.client.start_workflow(
                EXPORT_WORKFLOW,
                ExportInput(tenant, str(uuid4()), POLICY),
                id=f"export/{tenant}",
                task_queue=names.PLATFORM_QUEUE,
            )
            await until(partial(_all_wait, handle, runs))
            exports.append(handle)
        async with Worker(
            environment.client,
            task_queue=names.EXPORT_QUEUE,
            activities=[execute],
            max_concurrent_activities=1,
        ):
            assert [await handle.result() for handle in exports] == ["COMPLETED", "COMPLETED"]

    assert len(served) == 42
    assert max(index for index, tenant in enumerate(served) if tenant == "small") < 12, served


async def _all_wait(export: WorkflowHandle[Any, Any], runs: int) -> bool:
    description = await export.describe()
    return len(description.raw_description.pending_activities) == runs
