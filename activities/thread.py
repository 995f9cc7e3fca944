"""Ends of runs and of state updates that no revision worker writes down."""

from uuid import UUID

from temporalio import activity

from storage.database import Database
from storage.run_settlement import roll_back_run, settle_run
from storage.state_updates import settle_state_update
from workflows.messages.revision import SETTLE_STATE_UPDATE, SettleStateUpdate
from workflows.messages.thread import ROLL_BACK_RUN, SETTLE_RUN, RollBackRun, SettleRun


class ThreadActivities:
    """Projections of a thread's workflow into PostgreSQL. All idempotent."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @activity.defn(name=SETTLE_RUN)
    async def settle(self, settle: SettleRun) -> None:
        error = {"error": settle.error, "message": settle.message or ""} if settle.error else None
        async with self._database.transaction() as connection:
            await settle_run(connection, UUID(settle.thread_id), UUID(settle.run_id), settle.status, error)

    @activity.defn(name=ROLL_BACK_RUN)
    async def roll_back(self, rollback: RollBackRun) -> None:
        async with self._database.transaction() as connection:
            await roll_back_run(connection, UUID(rollback.thread_id), UUID(rollback.run_id))

    @activity.defn(name=SETTLE_STATE_UPDATE)
    async def settle_update(self, settle: SettleStateUpdate) -> None:
        async with self._database.transaction() as connection:
            await settle_state_update(
                connection, UUID(settle.thread_id), UUID(settle.update_id), settle.outcome
            )
