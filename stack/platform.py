"""Our own processes as programs of the supervisor: the API, the platform worker, the listener."""

import os
import sys
from collections.abc import Sequence

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.client import Client

from settings import Settings
from stack.connections import Addresses
from stack.health import check_api, check_pollers, connect_temporal
from stack.home import Home
from stack.program import Check, Program
from workflows.messages import names

_WORKFLOW = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
_ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY


async def platform_programs(home: Home, settings: Settings, addresses: Addresses) -> list[Program]:
    """What `slipway api`, `slipway worker platform` and `slipway worker listener` are as children."""
    temporal = await connect_temporal(addresses.temporal)
    environment = {**os.environ, "SLIPWAY_HOME": str(home.path), "PYTHONUNBUFFERED": "1"}

    def program(name: str, *arguments: str, check: Check, stop_seconds: float) -> Program:
        # -P: whoever starts the stack in a folder that has an `api` of its own gets ours all the same.
        command = [sys.executable, "-P", "-m", "stack.cli", *arguments]
        return Program(name, command, environment, check, stop_seconds=stop_seconds)

    return [
        program("api", "api", check=lambda _pid, _since: check_api(addresses.api_url), stop_seconds=10.0),
        program(
            "worker-platform",
            *("worker", "platform"),
            check=_polls(temporal, [(names.PLATFORM_QUEUE, _WORKFLOW), (names.EXPORT_QUEUE, _ACTIVITY)]),
            stop_seconds=15.0,
        ),
        program(
            "worker-listener",
            "worker",
            "listener",
            check=_polls(temporal, [(names.listener_queue(settings.listener_id), _ACTIVITY)]),
            stop_seconds=20.0,
        ),
    ]


def _polls(client: Client, queues: Sequence[tuple[str, "TaskQueueType.ValueType"]]) -> Check:
    return lambda _pid, since: check_pollers(client, queues, since)
