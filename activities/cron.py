"""Firings of crons: each creates one run, exactly once (docs/architecture/crons.md)."""

import asyncio
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from psycopg.rows import DictRow
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from settings import Settings
from storage.assistants import Assistants
from storage.crons import Crons
from storage.database import Connection, Database
from storage.run_fields import RESERVED_CONFIGURABLE, run_fields
from storage.runs import Runs
from storage.scope import DeploymentScope
from storage.threads import Threads
from workflows.messages import names
from workflows.messages.cron import FIRE_CRON, CronInput, FireCron, Firing
from workflows.messages.lane import LaneInput, LaneRun
from workflows.messages.submission import submit_lane_run, submit_run
from workflows.messages.thread import Run, Strategy, ThreadInput

log = structlog.get_logger()

# The schedule is made just before the transaction that stores its cron commits.
_ROW_SECONDS = 10.0


class CronActivities:
    """Idempotent: a firing is named by its cron and its scheduled time, and stored with its run."""

    def __init__(self, database: Database, client: Client, settings: Settings) -> None:
        self._database = database
        self._client = client
        self._settings = settings

    @activity.defn(name=FIRE_CRON)
    async def fire(self, request: FireCron) -> Firing:
        """Store the run and put it into its queue: both, or neither."""
        scope = DeploymentScope(UUID(request.cron.tenant_id), UUID(request.cron.deployment_id))
        cron_id, scheduled_at = UUID(request.cron.cron_id), datetime.fromisoformat(request.scheduled_at)
        if not await self._exists(scope, cron_id):
            await self._delete_schedule(request.cron)
            return Firing(skipped="The cron was deleted.")
        async with self._database.transaction() as connection:
            crons = Crons(connection, scope)
            if not await crons.begin_firing(cron_id, scheduled_at):
                return await _earlier(crons, cron_id, scheduled_at)
            cron = await crons.get(cron_id)
            assert cron is not None, "a firing was claimed for it"
            firing = await self._create_run(connection, scope, cron, scheduled_at)
            await crons.end_firing(cron_id, scheduled_at, _uuid(firing.thread_id), _uuid(firing.run_id))
        await self._note_next_run(scope, request.cron)
        return firing

    async def _exists(self, scope: DeploymentScope, cron_id: UUID) -> bool:
        for _ in range(int(_ROW_SECONDS * 10)):
            async with self._database.connection() as connection:
                if await Crons(connection, scope).get(cron_id):
                    return True
            await asyncio.sleep(0.1)
        return False

    async def _create_run(
        self, connection: Connection, scope: DeploymentScope, cron: DictRow, scheduled_at: datetime
    ) -> Firing:
        if not cron["enabled"]:
            return Firing(skipped="The cron is disabled.")
        if cron["end_time"] and scheduled_at > cron["end_time"]:
            return Firing(skipped="The cron has ended.")
        assistant = await Assistants(connection, scope).get(cron["assistant_id"])
        assert assistant is not None, "a cron is deleted with its assistant"
        if cron["thread_id"]:
            return await self._run_on_thread(connection, scope, cron, assistant)
        return await self._run_stateless(connection, scope, cron, assistant)

    async def _run_on_thread(
        self, connection: Connection, scope: DeploymentScope, cron: DictRow, assistant: DictRow
    ) -> Firing:
        thread_id, body = cron["thread_id"], cron["payload"]
        threads, runs = Threads(connection, scope), Runs(connection, scope)
        if await threads.lock(thread_id) is None:
            return Firing(skipped="The thread was deleted.")
        if body.get("multitask_strategy") == Strategy.REJECT and await runs.has_unfinished(thread_id):
            return Firing(skipped="The thread was busy, and the cron's strategy is `reject`.")
        row = await runs.create(run_fields(body, assistant, thread_id, 0, _configurable(cron)))
        await threads.set_busy(thread_id)
        thread = ThreadInput(
            str(scope.tenant_id),
            str(scope.deployment_id),
            str(thread_id),
            self._settings.thread_idle_seconds,
        )
        await submit_run(self._client, thread, self._message(row))
        return Firing(str(row["run_id"]), str(thread_id))

    async def _run_stateless(
        self, connection: Connection, scope: DeploymentScope, cron: DictRow, assistant: DictRow
    ) -> Firing:
        keep = cron["on_run_completed"] == "keep"
        metadata = {**cron["metadata"], "cron_id": str(cron["cron_id"])}
        thread = await Threads(connection, scope).create(metadata=metadata, temporary=not keep, busy=True)
        assert thread is not None, "a new id is never taken"
        fields = run_fields(
            cron["payload"],
            assistant,
            thread["thread_id"],
            self._settings.lanes_per_deployment,
            _configurable(cron),
        )
        fields["metadata"]["cron_id"] = str(cron["cron_id"])
        row = await Runs(connection, scope).create(fields)
        lane = LaneInput(str(scope.tenant_id), str(scope.deployment_id), self._settings.thread_idle_seconds)
        message = LaneRun(str(row["thread_id"]), self._message(row))
        await submit_lane_run(self._client, lane, row["lane"], message)
        return Firing(str(row["run_id"]), str(row["thread_id"]))

    def _message(self, row: DictRow) -> Run:
        return Run(
            run_id=str(row["run_id"]),
            strategy=row["multitask_strategy"],
            timeout_seconds=self._settings.run_timeout_seconds,
            max_attempts=self._settings.run_max_attempts,
            webhook=bool(row["kwargs"].get("webhook")),
        )

    async def _note_next_run(self, scope: DeploymentScope, cron: CronInput) -> None:
        """Only for readers of the row: a failure is mended by the next firing."""
        handle = self._client.get_schedule_handle(names.cron_schedule_id(cron.cron_id))
        try:
            times = (await handle.describe()).info.next_action_times
        except RPCError as error:
            log.warning("cron_not_described", cron_id=cron.cron_id, status=str(error.status))
            return
        async with self._database.connection() as connection:
            await Crons(connection, scope).set_next_run_date(UUID(cron.cron_id), times[0] if times else None)

    async def _delete_schedule(self, cron: CronInput) -> None:
        """The cron went with its thread, its assistant or its deployment, or was never committed."""
        try:
            await self._client.get_schedule_handle(names.cron_schedule_id(cron.cron_id)).delete()
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
        log.info("cron_schedule_deleted", cron_id=cron.cron_id, deployment_id=cron.deployment_id)


async def _earlier(crons: Crons, cron_id: UUID, scheduled_at: datetime) -> Firing:
    """What an earlier attempt of this activity has committed."""
    row = await crons.firing(cron_id, scheduled_at)
    if row is None or row["run_id"] is None:
        return Firing(skipped="This firing was skipped before.")
    return Firing(str(row["run_id"]), str(row["thread_id"]))


def _configurable(cron: DictRow) -> dict[str, Any]:
    """The cron's id, and the user who made it."""
    given = (cron["payload"].get("config") or {}).get("configurable") or {}
    reserved = {key: value for key, value in given.items() if key in RESERVED_CONFIGURABLE}
    return {**reserved, "cron_id": str(cron["cron_id"])}


def _uuid(text: str | None) -> UUID | None:
    return UUID(text) if text else None
