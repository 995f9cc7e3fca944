"""RevisionWorkflow: one rollout of one revision, from its source to serving (docs/architecture/rollout.md)."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    TimeoutType,
    is_cancelled_exception,
)
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import names, search_attributes
    from workflows.messages.revision import DESCRIBE_REVISION, Description
    from workflows.messages.rollout import (
        ACTIVATE_REVISION,
        ADMIT_REVISION,
        BUILD_REVISION,
        CLEAR_RAMP,
        REVISION_WORKFLOW,
        SET_RAMP,
        SET_REVISION_STATUS,
        START_WORKERS,
        STORE_DESCRIPTION,
        TALLY_RUNS,
        WATCH_WORKERS,
        Activated,
        ActivateRevision,
        Admission,
        AdmitRevision,
        BuildRevision,
        RevisionInput,
        RevisionRef,
        RevisionResult,
        RevisionStatus,
        RunTally,
        SetRamp,
        SetRevisionStatus,
        StartWorkers,
        StepResult,
        StoreDescription,
        WatchWorkers,
    )

_RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=10))
# Steps on the listener: each attempt that failed had a defect or lost its listener, and neither heals by repetition.
_LISTENER_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=10), maximum_attempts=20
)
_STEP = timedelta(seconds=60)
_LISTENER_HEARTBEAT = timedelta(seconds=10)
_RAMP_CHECK_SECONDS = 5.0


class _StepFailedError(Exception):
    """A step said that the user has to correct something."""


@workflow.defn(name=REVISION_WORKFLOW, failure_exception_types=[Exception])
class RevisionWorkflow:
    """Build, start, probe, ramp, switch. Any failure leaves the revision before it serving."""

    @workflow.init
    def __init__(self, rollout: RevisionInput) -> None:
        self._rollout = rollout
        self._submitted = rollout.revision
        self._ref = RevisionRef(rollout.tenant_id, rollout.deployment_id, rollout.revision.revision_id)
        self._worker_set_id = workflow.info().run_id
        # What a failure ends as: it depends on how far the revision has come.
        self._failure = RevisionStatus.CREATE_FAILED
        self._started = False
        self._ramped = False
        self._activated: Activated | None = None

    @workflow.run
    async def run(self, rollout: RevisionInput) -> RevisionResult:
        workflow.upsert_search_attributes(
            [
                search_attributes.keyword(search_attributes.TENANT, self._ref.tenant_id),
                search_attributes.keyword(search_attributes.DEPLOYMENT, self._ref.deployment_id),
                search_attributes.keyword(search_attributes.REVISION, self._ref.revision_id),
            ]
        )
        try:
            return await self._roll_out()
        except _StepFailedError as failure:
            return await self._end(self._failure, str(failure))
        except ActivityError as error:
            if is_cancelled_exception(error):
                return await self._interrupted()
            return await self._end(self._failure, _reason(error))
        except asyncio.CancelledError:
            return await self._interrupted()

    async def _roll_out(self) -> RevisionResult:
        admission = await self._platform(
            ADMIT_REVISION, AdmitRevision(self._ref, self._submitted.redeploy), Admission
        )
        if not admission.found:
            return RevisionResult(RevisionStatus.UNKNOWN)
        if admission.failure:
            raise _StepFailedError(admission.failure)
        if admission.needs_build:
            await self._build()
        await self._reach(RevisionStatus.AWAITING_DEPLOY)
        self._failure = RevisionStatus.DEPLOY_FAILED
        await self._start_workers()
        description = await self._probe()
        await self._platform(STORE_DESCRIPTION, StoreDescription(self._ref, description), None)
        await self._ramp()
        return await self._activate()

    async def _build(self) -> None:
        await self._reach(RevisionStatus.AWAITING_BUILD)
        self._failure = RevisionStatus.BUILD_FAILED
        limit = self._submitted.limits.build_seconds
        built = await self._listener(
            BUILD_REVISION, BuildRevision(self._ref, limit), StepResult, limit + 60, "Build"
        )
        _raise_failure(built)

    async def _start_workers(self) -> None:
        self._started = True
        start = StartWorkers(
            self._ref, self._rollout.listener_id, self._worker_set_id, self._submitted.limits.drain_seconds
        )
        _raise_failure(await self._listener(START_WORKERS, start, StepResult, 120, "Start workers"))

    async def _probe(self) -> Description:
        """Ask the new workers what they serve, while their listener watches whether they live."""
        asked = asyncio.create_task(self._ask_for_description())
        watched = asyncio.create_task(
            self._listener(
                WATCH_WORKERS,
                WatchWorkers(self._ref, self._worker_set_id),
                StepResult,
                self._submitted.limits.probe_seconds + 60,
                "Watch the new workers start",
                # It only looks: nobody has to wait until it has stopped looking.
                workflow.ActivityCancellationType.TRY_CANCEL,
            )
        )
        try:
            await workflow.wait_condition(lambda: asked.done() or watched.done())
            if asked.done():
                return asked.result()
            _raise_failure(watched.result())
            return await asked
        finally:
            asked.cancel()
            watched.cancel()
            # Looks at both results: one that nobody looks at is reported as an error.
            await asyncio.gather(asked, watched, return_exceptions=True)

    async def _ask_for_description(self) -> Description:
        limit = self._submitted.limits.probe_seconds
        try:
            description: Description = await workflow.execute_activity(
                DESCRIBE_REVISION,
                result_type=Description,
                # Not the revision's queue: workers that serve it already would answer for the new ones.
                task_queue=names.worker_set_queue(self._worker_set_id),
                schedule_to_close_timeout=timedelta(seconds=limit),
                start_to_close_timeout=timedelta(seconds=limit),
                retry_policy=_RETRY,
                summary="Import and describe the graphs",
            )
        except ActivityError as error:
            if isinstance(error.cause, ActivityTimeoutError):
                raise _StepFailedError(
                    f"The new workers did not import and describe the project's graphs within {limit:g} s;"
                    " the deploy logs show what they printed."
                ) from error
            raise
        return description

    async def _ramp(self) -> None:
        """Step by step more threads for the new revision; back to none when too many of its runs fail."""
        for step in self._submitted.ramp:
            self._ramped = True
            await self._platform(SET_RAMP, SetRamp(self._ref, step.percent), None)
            remaining = step.pause_seconds
            while remaining > 0:
                await workflow.sleep(min(remaining, _RAMP_CHECK_SECONDS))
                remaining -= _RAMP_CHECK_SECONDS
                tally = await self._platform(TALLY_RUNS, self._ref, RunTally)
                allowed = self._submitted.ramp_max_error_share
                if tally.failed > allowed * tally.ended:
                    raise _StepFailedError(
                        f"Ramp aborted at {step.percent:g} %: {tally.failed} of {tally.ended} runs of the new revision"
                        f" failed, more than the allowed share of {allowed:g}."
                    )

    async def _activate(self) -> RevisionResult:
        """The point of no return: an interrupt that comes now comes too late."""
        self._activated = await self._platform(
            ACTIVATE_REVISION, ActivateRevision(self._ref, self._worker_set_id), Activated
        )
        return self._done()

    async def _interrupted(self) -> RevisionResult:
        if self._activated:
            return self._done()
        return await self._end(RevisionStatus.INTERRUPTED, "Interrupted by a user.")

    def _done(self) -> RevisionResult:
        assert self._activated is not None
        status = RevisionStatus.DEPLOYED
        workflow.upsert_search_attributes([search_attributes.keyword(search_attributes.STATUS, status)])
        workflow.set_current_details(f"**{self._rollout.deployment_name}**\n\n- status: {status}")
        return RevisionResult(RevisionStatus.DEPLOYED, retired=self._activated.retired)

    async def _end(self, status: RevisionStatus, message: str) -> RevisionResult:
        """Undo what was begun, and say why. The new workers, if any, are left to be stopped."""
        if self._ramped:
            await self._platform(CLEAR_RAMP, self._ref, None)
        await self._reach(status, message)
        return RevisionResult(status, [self._worker_set_id] if self._started else [], message)

    async def _reach(self, status: RevisionStatus, message: str | None = None) -> None:
        workflow.upsert_search_attributes([search_attributes.keyword(search_attributes.STATUS, status)])
        workflow.set_current_details(
            f"**{self._rollout.deployment_name}**\n\n- status: {status}\n- {message or 'no remarks'}"
        )
        await self._platform(SET_REVISION_STATUS, SetRevisionStatus(self._ref, status, message), None)

    async def _platform(self, name: str, argument: Any, result_type: type | None) -> Any:
        """A step of the platform's own. An interrupt waits until it is done: a row is never written late."""
        step = asyncio.create_task(
            workflow.execute_activity(
                name,
                argument,
                result_type=result_type,
                start_to_close_timeout=_STEP,
                retry_policy=_RETRY,
                summary=getattr(argument, "status", None),
            )
        )
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            result = await step
            if isinstance(result, Activated):
                self._activated = result
            raise

    async def _listener(
        self,
        name: str,
        argument: Any,
        result_type: type[StepResult],
        seconds: float,
        summary: str,
        cancellation: workflow.ActivityCancellationType = (
            workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
        ),
    ) -> StepResult:
        """A step that the deployment's listener takes; cancelling waits until it has cleaned up."""
        away = self._submitted.limits.listener_seconds
        result: StepResult = await workflow.execute_activity(
            name,
            argument,
            result_type=result_type,
            task_queue=names.listener_queue(self._rollout.listener_id),
            schedule_to_start_timeout=timedelta(seconds=away),
            start_to_close_timeout=timedelta(seconds=seconds),
            heartbeat_timeout=_LISTENER_HEARTBEAT,
            retry_policy=_LISTENER_RETRY,
            cancellation_type=cancellation,
            summary=summary,
        )
        return result


def _raise_failure(result: StepResult) -> None:
    if result.failure:
        raise _StepFailedError(result.failure)


def _reason(error: ActivityError) -> str:
    """A step's failure in words for `status_message`."""
    cause = error.cause
    if isinstance(cause, ActivityTimeoutError) and cause.type == TimeoutType.SCHEDULE_TO_START:
        return "No listener took up the work in time: is `slipway worker listener` running?"
    if isinstance(cause, ApplicationError):
        return cause.message
    return f"Step '{error.activity_type}' failed: {cause or error}"
