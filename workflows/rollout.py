"""RolloutWorkflow: one deployment, its revisions one after the other (docs/architecture/rollout.md)."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ChildWorkflowError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names, search_attributes
    from workflows.messages.rollout import (
        BEGIN_DELETION,
        DELETE_DEPLOYMENT_SIGNAL,
        DELETE_RECORDS,
        DESCRIBE_ROLLOUT_QUERY,
        INTERRUPT_REVISION_SIGNAL,
        PROVISION_DEPLOYMENT,
        REMOVE_DEPLOYMENT,
        REVISION_WORKFLOW,
        ROLLOUT_WORKFLOW,
        SET_REVISION_STATUS,
        STOP_WORKERS,
        SUBMIT_REVISION_SIGNAL,
        Activated,
        DeleteDeployment,
        DeleteRecords,
        DeploymentRef,
        InterruptRevision,
        RevisionInput,
        RevisionRef,
        RevisionResult,
        RevisionStatus,
        RolloutDescription,
        RolloutInput,
        SetRevisionStatus,
        StopWorkers,
        SubmitRevision,
    )

_RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=10))
_STEP = timedelta(seconds=60)


@workflow.defn(name=ROLLOUT_WORKFLOW, failure_exception_types=[Exception])
class RolloutWorkflow:
    """Rolls out what is submitted, one revision at a time; of those that wait, the newest wins."""

    @workflow.init
    def __init__(self, rollout: RolloutInput) -> None:
        self._rollout = rollout
        self._queue: list[SubmitRevision] = list(rollout.queue)
        self._announced: set[str] = set()
        self._interrupted: list[str] = []
        self._deletion: DeleteDeployment | None = None
        self._current: SubmitRevision | None = None
        self._rolling_out: asyncio.Task[None] | None = None
        self._handle: workflow.ChildWorkflowHandle[RevisionInput, RevisionResult] | None = None
        self._cancelled = False
        self._stopping: dict[str, asyncio.Task[None]] = {}

    @workflow.run
    async def run(self, rollout: RolloutInput) -> None:
        workflow.upsert_search_attributes(
            [
                search_attributes.keyword(search_attributes.TENANT, rollout.tenant_id),
                search_attributes.keyword(search_attributes.DEPLOYMENT, rollout.deployment_id),
            ]
        )
        if not rollout.provisioned and not await self._provision():
            return
        while True:
            await self._interrupt_asked()
            if self._deletion and self._current is None:
                await self._tear_down(self._deletion)
                return
            if self._is_idle() and workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._carried_over())
            if self._current is None and self._queue:
                await self._begin_newest()
            await self._announce_queued()
            self._show_details()
            await workflow.wait_condition(self._is_something_to_do)

    @workflow.signal(name=SUBMIT_REVISION_SIGNAL)
    def submit(self, revision: SubmitRevision) -> None:
        """A revision to roll out, after the one that is being rolled out."""
        self._queue = [queued for queued in self._queue if queued.revision_id != revision.revision_id]
        self._queue.append(revision)

    @workflow.signal(name=INTERRUPT_REVISION_SIGNAL)
    def interrupt(self, interrupt: InterruptRevision) -> None:
        """Stop a revision, waiting or being rolled out."""
        self._interrupted.append(interrupt.revision_id)

    @workflow.signal(name=DELETE_DEPLOYMENT_SIGNAL)
    def delete(self, deletion: DeleteDeployment) -> None:
        """Tear everything down; what is being rolled out is stopped first."""
        self._deletion = self._deletion or deletion

    @workflow.query(name=DESCRIBE_ROLLOUT_QUERY)
    def describe(self) -> RolloutDescription:
        return RolloutDescription(
            rolling_out=self._current.revision_id if self._current else None,
            queued=[queued.revision_id for queued in self._queue],
            stopping=list(self._stopping),
        )

    async def _provision(self) -> bool:
        """What a deployment has once: its database role and keys. False if its row was never committed."""
        found: bool = await workflow.execute_activity(
            PROVISION_DEPLOYMENT,
            self._deployment(),
            result_type=bool,
            start_to_close_timeout=_STEP,
            retry_policy=_RETRY,
            summary=f"Provision {self._rollout.name}",
        )
        return found

    async def _begin_newest(self) -> None:
        """Start the newest of those that wait; the others are overtaken. A redeploy that was overtaken stays as it
        ended."""
        *overtaken, newest = self._queue
        self._queue = []
        for queued in overtaken:
            if not queued.redeploy:
                await self._announce(queued.revision_id, newest.revision_id)
                await self._set_status(
                    queued.revision_id,
                    RevisionStatus.SKIPPED,
                    f"A newer revision, {newest.revision_id}, was submitted while this one waited.",
                )
        self._current, self._cancelled = newest, False
        self._rolling_out = asyncio.create_task(self._roll_out(newest))

    async def _roll_out(self, revision: SubmitRevision) -> None:
        """One revision, from its turn to its end; then the workers it replaced are stopped meanwhile."""
        try:
            result = await self._run_child(revision)
            owner = self._ref(revision.revision_id)
            for worker_set_id in result.retired:
                self._stopping[worker_set_id] = asyncio.create_task(
                    self._stop(owner, worker_set_id, revision.limits.drain_seconds)
                )
        except ChildWorkflowError as error:
            # It settles its own failures and interrupts: this one was terminated by an operator, or has a defect.
            reason = f"The rollout was ended by force: {error.cause or error}"[:500]
            for status in (
                RevisionStatus.DEPLOY_FAILED,
                RevisionStatus.BUILD_FAILED,
                RevisionStatus.CREATE_FAILED,
            ):
                await self._set_status(revision.revision_id, status, reason)
        finally:
            self._current, self._handle = None, None
            self._announced.discard(revision.revision_id)

    async def _run_child(self, revision: SubmitRevision) -> RevisionResult:
        rollout = self._rollout
        self._handle = await workflow.start_child_workflow(
            REVISION_WORKFLOW,
            RevisionInput(
                rollout.tenant_id, rollout.deployment_id, rollout.name, rollout.listener_id, revision
            ),
            id=names.revision_workflow_id(revision.revision_id),
            result_type=RevisionResult,
            cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            static_summary=f"{rollout.name}: revision {revision.revision_id}",
        )
        if self._cancelled:
            self._handle.cancel()
        return await self._handle

    async def _stop(self, owner: RevisionRef, worker_set_id: str, drain_seconds: float) -> None:
        """Let replaced workers finish what they run, then end them."""
        try:
            await workflow.execute_activity(
                STOP_WORKERS,
                StopWorkers(owner, worker_set_id, drain_seconds),
                task_queue=names.listener_queue(self._rollout.listener_id),
                start_to_close_timeout=timedelta(seconds=drain_seconds + 120),
                heartbeat_timeout=timedelta(seconds=20),
                retry_policy=_RETRY,
                summary="Drain and stop replaced workers",
            )
        finally:
            self._stopping.pop(worker_set_id, None)

    async def _interrupt_asked(self) -> None:
        """Carry out the interrupts that came in; a deletion interrupts whatever is under way."""
        asked, self._interrupted = self._interrupted, []
        for revision_id in asked:
            if self._current and self._current.revision_id == revision_id:
                self._cancel_current()
                continue
            self._queue = [queued for queued in self._queue if queued.revision_id != revision_id]
            await self._set_status(revision_id, RevisionStatus.INTERRUPTED, "Interrupted by a user.")
        if self._deletion:
            self._cancel_current()
            queue, self._queue = self._queue, []
            for queued in queue:
                await self._set_status(
                    queued.revision_id, RevisionStatus.INTERRUPTED, "The deployment was deleted."
                )

    def _cancel_current(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            if self._handle:
                self._handle.cancel()

    async def _tear_down(self, deletion: DeleteDeployment) -> None:
        """Workers first, then files, then records: whatever is seen of the deployment is still true."""
        active = await workflow.execute_activity(
            BEGIN_DELETION,
            self._deployment(),
            result_type=Activated,
            start_to_close_timeout=timedelta(minutes=10),
            retry_policy=_RETRY,
            summary="End runs, crons and routing",
        )
        owner = self._ref("")
        for worker_set_id in active.retired:
            if worker_set_id not in self._stopping:
                self._stopping[worker_set_id] = asyncio.create_task(self._stop(owner, worker_set_id, 10.0))
        await asyncio.gather(*self._stopping.values())
        await workflow.execute_activity(
            REMOVE_DEPLOYMENT,
            self._deployment(),
            task_queue=names.listener_queue(self._rollout.listener_id),
            start_to_close_timeout=timedelta(minutes=10),
            heartbeat_timeout=timedelta(seconds=60),
            retry_policy=_RETRY,
            summary="Remove files",
        )
        await workflow.execute_activity(
            DELETE_RECORDS,
            DeleteRecords(self._deployment(), deletion.delete_tracing_project),
            start_to_close_timeout=timedelta(minutes=10),
            retry_policy=_RETRY,
            summary="Remove records",
        )

    async def _announce_queued(self) -> None:
        """Those that wait for their turn say so."""
        for queued in list(self._queue):
            if self._current and not queued.redeploy:
                await self._announce(queued.revision_id, self._current.revision_id)

    async def _announce(self, revision_id: str, awaited_id: str) -> None:
        if revision_id not in self._announced:
            self._announced.add(revision_id)
            await self._set_status(
                revision_id, RevisionStatus.QUEUED, f"Waits for revision {awaited_id} to finish."
            )

    async def _set_status(self, revision_id: str, status: RevisionStatus, message: str) -> None:
        await workflow.execute_activity(
            SET_REVISION_STATUS,
            SetRevisionStatus(self._ref(revision_id), status, message),
            start_to_close_timeout=_STEP,
            retry_policy=_RETRY,
            summary=f"{status} {revision_id}",
        )

    def _is_something_to_do(self) -> bool:
        startable = bool(self._queue) and self._current is None
        unannounced = any(
            queued.revision_id not in self._announced and not queued.redeploy for queued in self._queue
        )
        deletable = self._deletion is not None and (self._current is None or not self._cancelled)
        rotatable = self._is_idle() and workflow.info().is_continue_as_new_suggested()
        return startable or unannounced or deletable or rotatable or bool(self._interrupted)

    def _is_idle(self) -> bool:
        return self._current is None and not self._queue and not self._stopping and not self._interrupted

    def _deployment(self) -> DeploymentRef:
        return DeploymentRef(self._rollout.tenant_id, self._rollout.deployment_id)

    def _ref(self, revision_id: str) -> RevisionRef:
        return RevisionRef(self._rollout.tenant_id, self._rollout.deployment_id, revision_id)

    def _carried_over(self) -> RolloutInput:
        start = self._rollout
        return RolloutInput(
            start.tenant_id,
            start.deployment_id,
            start.name,
            start.listener_id,
            provisioned=True,
            queue=self._queue,
        )

    def _show_details(self) -> None:
        """What an operator reads at the top of the workflow's page."""
        current = f"`{self._current.revision_id}`" if self._current else "nothing"
        waiting = ", ".join(f"`{queued.revision_id}`" for queued in self._queue) or "nothing"
        stopping = f"{len(self._stopping)} replaced set(s) of workers" if self._stopping else "nothing"
        workflow.set_current_details(
            f"**{self._rollout.name}**\n\n- rolling out: {current}\n- queued: {waiting}\n- draining: {stopping}"
        )
