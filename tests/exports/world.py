"""Stands for database and bucket where only the workflows of exports are of interest."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from temporalio import activity

from workflows.messages.export import (
    BEGIN_EXPORT,
    FINISH_EXPORT,
    LIST_EXPORT_RUNS,
    PLAN_EXPORT,
    RUN_EXPORT,
    Begun,
    ExportRef,
    Finished,
    FinishExport,
    ListExportRuns,
    PendingRun,
    PendingRuns,
    Plan,
    RunExport,
    RunExportResult,
)
from workflows.messages.export_schedule import SPAWN_EXPORT, Spawned, SpawnExport

RunActivity = Callable[[RunExport], Awaitable[RunExportResult]]


class World:
    """Stands for database and bucket: remembers what the workflows did, and when."""

    def __init__(self, run: RunActivity, runs: int = 1, **runs_of_tenants: int) -> None:
        self._run = run
        self._runs, self._runs_of = runs, runs_of_tenants
        self._left: dict[str, list[str]] = {}
        self.finished: list[FinishExport] = []
        self.spawned: list[tuple[int, datetime]] = []

    def _runs_left(self, ref: ExportRef) -> list[str]:
        count = self._runs_of.get(ref.tenant_id, self._runs)
        return self._left.setdefault(ref.export_id, [f"run-{number}" for number in range(count)])

    def activities(self) -> Sequence[Callable[..., Any]]:
        @activity.defn(name=BEGIN_EXPORT)
        async def begin(ref: ExportRef) -> Begun:
            return Begun(True)

        @activity.defn(name=PLAN_EXPORT)
        async def plan(ref: ExportRef) -> Plan:
            return Plan(runs=len(self._runs_left(ref)))

        @activity.defn(name=LIST_EXPORT_RUNS)
        async def list_runs(request: ListExportRuns) -> PendingRuns:
            return PendingRuns([PendingRun(run, run) for run in self._runs_left(request.export)])

        @activity.defn(name=RUN_EXPORT)
        async def run(request: RunExport) -> RunExportResult:
            result = await self._run(request)
            self._runs_left(request.export).remove(request.run_id)
            return result

        @activity.defn(name=FINISH_EXPORT)
        async def finish(request: FinishExport) -> Finished:
            self.finished.append(request)
            return Finished(request.status, request.error)

        @activity.defn(name=SPAWN_EXPORT)
        async def spawn(request: SpawnExport) -> Spawned:
            self.spawned.append((request.window, activity.info().current_attempt_scheduled_time))
            return Spawned(str(uuid4()))

        return [begin, plan, list_runs, finish, spawn, run]
