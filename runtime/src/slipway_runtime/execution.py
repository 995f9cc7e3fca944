"""The activity that executes a run: claim, heartbeat, run the graph, settle (docs/architecture/runs.md)."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
from psycopg_pool import PoolTimeout
from temporalio import activity
from temporalio.exceptions import ApplicationError

from slipway_runtime.claims import Claim, claim_run
from slipway_runtime.events import EventWriter
from slipway_runtime.graph_run import GraphRun
from slipway_runtime.messages import EXECUTE_RUN, ExecuteRun, Outcome, RunResult
from slipway_runtime.pools import Pool
from slipway_runtime.records import RunRecord, Settlement
from slipway_runtime.saver import DatabaseAwayError, SupersededError
from slipway_runtime.user_loop import RunCancelledError, UserCodeStuckError, UserLoop

log = logging.getLogger(__name__)

# A cancellation reaches us with the answer to a heartbeat: this bounds how late.
HEARTBEAT_SECONDS = 0.4
_CANCEL_SECONDS = 1.0
_FLUSH_SECONDS = 1.0


class RunActivities:
    """Executes runs of one revision. `pool` belongs to the worker's loop."""

    def __init__(
        self, revision_id: str, pool: Pool, events: EventWriter, user_loop: UserLoop, graph_run: GraphRun
    ) -> None:
        self._revision_id = revision_id
        self._pool = pool
        self._events = events
        self._user_loop = user_loop
        self._graph_run = graph_run

    @activity.defn(name=EXECUTE_RUN)
    async def execute_run(self, request: ExecuteRun) -> RunResult:
        """One attempt, from its claim to the run's settled row, or to the point where another attempt goes on."""
        async with _heartbeats():
            try:
                return RunResult(await self._attempt(request))
            except (DatabaseAwayError, psycopg.OperationalError, PoolTimeout) as error:
                raise ApplicationError(
                    "The database cannot be reached.",
                    type="DatabaseAway",
                    next_retry_delay=timedelta(seconds=2),
                ) from error

    async def _attempt(self, request: ExecuteRun) -> Outcome:
        claimed = await claim_run(self._pool, request, self._revision_id)
        if isinstance(claimed, Outcome):
            return claimed
        record = self._events.open(
            claimed.run_id, claimed.thread_id, claimed.attempt, claimed.graph_id, claimed.assistant_id
        )
        log.info(
            "run_started thread_id=%s run_id=%s attempt=%s",
            claimed.thread_id,
            claimed.run_id,
            claimed.attempt,
        )
        try:
            settlement = await self._user_loop.run(
                self._graph_run.execute(claimed, record), cancel_seconds=_CANCEL_SECONDS
            )
            await self._events.settle(record, settlement)
        except SupersededError:
            log.info("run_superseded run_id=%s attempt=%s", claimed.run_id, claimed.attempt)
            return Outcome.SETTLED
        except (asyncio.CancelledError, RunCancelledError, UserCodeStuckError) as stopped:
            return await self._stopped(record, stopped)
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            # A row that PostgreSQL refuses, whatever the attempt: the run fails with what it said.
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error
        finally:
            record.close()
        return _outcome(claimed, settlement)

    async def _stopped(self, record: RunRecord, stopped: BaseException) -> Outcome:
        """Cancelled: store what there is; then either give the run back, or tell Temporal that it was cancelled."""
        if not isinstance(stopped, UserCodeStuckError):
            with contextlib.suppress(TimeoutError, SupersededError, psycopg.Error):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._events.flush(record)
        details = activity.cancellation_details()
        log.info("run_stopped run_id=%s attempt=%s reason=%s", record.run_id, record.attempt, details)
        if details is not None and details.worker_shutdown and not details.cancel_requested:
            return Outcome.RELEASED
        raise asyncio.CancelledError from None


def _outcome(claim: Claim, settlement: Settlement) -> Outcome:
    log.info("run_ended run_id=%s attempt=%s status=%s", claim.run_id, claim.attempt, settlement.status)
    return Outcome(settlement.status)


@contextlib.asynccontextmanager
async def _heartbeats() -> AsyncIterator[None]:
    async def beat() -> None:
        # Not at once: Temporal writes each down, and most runs have ended before the first is due.
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            activity.heartbeat()

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
