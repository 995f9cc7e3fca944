"""A real Temporal server for workflows, with scripted activities in place of revisions and projections."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from workflows.lane import LaneWorkflow
from workflows.messages import names
from workflows.messages.lane import LANE_WORKFLOW, CancelLaneRun, LaneInput, LaneRun
from workflows.messages.revision import (
    SETTLE_STATE_UPDATE,
    UPDATE_STATE,
    SettleStateUpdate,
    StateUpdate,
    UpdateState,
)
from workflows.messages.thread import (
    CANCEL_SIGNAL,
    DESCRIBE_QUERY,
    EXECUTE_RUN,
    ROLL_BACK_RUN,
    SETTLE_RUN,
    SUBMIT_SIGNAL,
    THREAD_WORKFLOW,
    UPDATE_SIGNAL,
    CancelRun,
    ExecuteRun,
    Outcome,
    RollBackRun,
    Run,
    RunResult,
    SettleRun,
    ThreadDescription,
    ThreadInput,
)
from workflows.thread import ThreadWorkflow

DEADLINE = 20.0


class ScriptedActivities:
    """Notes what happens. A run called `hold-*` goes on until it is let go or cancelled; `fail-*` raises.

    State updates fail at first.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.changed = asyncio.Condition()
        self.let_go: set[str] = set()
        self.releases = 0

    async def note(self, entry: str) -> None:
        async with self.changed:
            self.log.append(entry)
            self.changed.notify_all()

    async def seen(self, *entries: str) -> None:
        """Wait until all entries are in the log."""
        async with asyncio.timeout(DEADLINE), self.changed:
            await self.changed.wait_for(lambda: all(entry in self.log for entry in entries))

    @activity.defn(name=EXECUTE_RUN)
    async def execute(self, run: ExecuteRun) -> RunResult:
        await self.note(f"start {run.run_id}")
        if run.run_id.startswith("fail"):
            raise ApplicationError("no such graph", type="GraphLoadError", non_retryable=True)
        if run.run_id.startswith("released") and self.releases == 0:
            self.releases += 1
            return RunResult(Outcome.RELEASED)
        while run.run_id.startswith("hold") and run.run_id not in self.let_go:
            activity.heartbeat()
            await asyncio.sleep(0.01)
        await self.note(f"end {run.run_id}")
        return RunResult(Outcome.SUCCESS)

    @activity.defn(name=SETTLE_RUN)
    async def settle(self, settle: SettleRun) -> None:
        await self.note(f"{settle.status} {settle.run_id}" + (f" {settle.error}" if settle.error else ""))

    @activity.defn(name=ROLL_BACK_RUN)
    async def roll_back(self, rollback: RollBackRun) -> None:
        await self.note(f"rolled back {rollback.run_id}")

    @activity.defn(name=UPDATE_STATE)
    async def update_state(self, update: UpdateState) -> None:
        await self.note(f"update {update.update_id}")
        if activity.info().attempt == 1:
            raise ApplicationError("the database is away")

    @activity.defn(name=SETTLE_STATE_UPDATE)
    async def settle_update(self, settle: SettleStateUpdate) -> None:
        await self.note(f"{settle.outcome} {settle.update_id}")


class Thread:
    """A thread of its own in every test, driven by signals as the API sends them."""

    def __init__(self, client: Client, deployment_id: str, idle_seconds: float) -> None:
        self.input = ThreadInput("tenant", deployment_id, str(uuid.uuid4()), idle_seconds)
        self.client = client
        self.handle = client.get_workflow_handle(names.thread_workflow_id(self.input.thread_id))

    async def submit(self, *runs: Run) -> None:
        for run in runs:
            await self._signal(SUBMIT_SIGNAL, run)

    async def update(self, update_id: str, revision_id: str, wait_seconds: float = 10.0) -> None:
        update = StateUpdate(self.input.thread_id, update_id, revision_id, wait_seconds)
        await self._signal(UPDATE_SIGNAL, update)

    async def _signal(self, name: str, message: Run | StateUpdate) -> None:
        await self.client.start_workflow(
            THREAD_WORKFLOW,
            self.input,
            id=names.thread_workflow_id(self.input.thread_id),
            task_queue=names.PLATFORM_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=name,
            start_signal_args=[message],
        )

    async def cancel(self, run_id: str, action: str = "interrupt") -> None:
        await self.handle.signal(CANCEL_SIGNAL, CancelRun(run_id, action))

    async def describe(self) -> ThreadDescription:
        return await self.handle.query(DESCRIBE_QUERY, result_type=ThreadDescription)


@pytest.fixture(scope="module")
async def temporal() -> AsyncIterator[Client]:
    binary = Path(sys.executable).with_name("temporal")
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=str(binary)) as environment:
        yield environment.client


@pytest.fixture(scope="module")
async def platform(temporal: Client) -> AsyncIterator[dict[str, ScriptedActivities]]:
    """The platform worker; each test's activities are found by its deployment."""
    scripts: dict[str, ScriptedActivities] = {}

    @activity.defn(name=SETTLE_RUN)
    async def settle(settle: SettleRun) -> None:
        await scripts[settle.run_id.rpartition("@")[2]].settle(settle)

    @activity.defn(name=ROLL_BACK_RUN)
    async def roll_back(rollback: RollBackRun) -> None:
        await scripts[rollback.run_id.rpartition("@")[2]].roll_back(rollback)

    @activity.defn(name=SETTLE_STATE_UPDATE)
    async def settle_update(settle: SettleStateUpdate) -> None:
        await scripts[settle.update_id.rpartition("@")[2]].settle_update(settle)

    async with Worker(
        temporal,
        task_queue=names.PLATFORM_QUEUE,
        workflows=[ThreadWorkflow, LaneWorkflow],
        activities=[settle, roll_back, settle_update],
    ):
        yield scripts


class Lane:
    """A lane of its own in every test; each run gets a thread id of its own."""

    def __init__(self, client: Client, deployment_id: str, **options: Any) -> None:
        self.input = LaneInput("tenant", deployment_id, idle_seconds=0.2, **options)
        self.client = client
        self.workflow_id = names.lane_workflow_id(deployment_id, 0)
        self.handle = client.get_workflow_handle(self.workflow_id)
        self.threads: dict[str, str] = {}

    async def submit(self, *runs: Run) -> None:
        for run in runs:
            self.threads[run.run_id] = str(uuid.uuid4())
            await self.client.start_workflow(
                LANE_WORKFLOW,
                self.input,
                id=self.workflow_id,
                task_queue=names.PLATFORM_QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=SUBMIT_SIGNAL,
                start_signal_args=[LaneRun(self.threads[run.run_id], run)],
            )

    async def cancel(self, run_id: str) -> None:
        await self.handle.signal(CANCEL_SIGNAL, CancelLaneRun(run_id, self.threads[run_id]))


class Stage:
    """One test's thread and what its activities saw; run ids are made unique by the deployment's."""

    def __init__(self, thread: Thread, script: ScriptedActivities) -> None:
        self.thread = thread
        self.script = script
        self.deployment_id = thread.input.deployment_id

    def run(self, name: str, **options: object) -> Run:
        return Run(self.id(name), **options)  # type: ignore[arg-type]

    def id(self, name: str) -> str:
        return f"{name}@{self.deployment_id}"

    async def seen(self, *entries: str) -> None:
        await self.script.seen(*(self._full(entry) for entry in entries))

    @property
    def log(self) -> list[str]:
        return [entry.replace(f"@{self.deployment_id}", "") for entry in self.script.log]

    def _full(self, entry: str) -> str:
        words = entry.split(" ")
        place = 2 if entry.startswith("rolled back") else 1
        words[place] = self.id(words[place])
        return " ".join(words)


@pytest.fixture
async def stage(temporal: Client, platform: dict[str, ScriptedActivities]) -> AsyncIterator[Stage]:
    deployment_id, script = uuid.uuid4().hex, ScriptedActivities()
    platform[deployment_id] = script
    thread = Thread(temporal, deployment_id, idle_seconds=0.2)
    async with (
        Worker(
            temporal,
            task_queue=names.deployment_queue(deployment_id),
            activities=[script.execute],
            max_heartbeat_throttle_interval=timedelta(milliseconds=50),
        ),
        Worker(temporal, task_queue=names.revision_queue(deployment_id), activities=[script.update_state]),
    ):
        yield Stage(thread, script)
