"""Answers what the platform asks by row (docs/architecture/revision-calls.md)."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from temporalio import activity

from slipway_runtime.describe import ProjectLoader
from slipway_runtime.environment import mask_secrets
from slipway_runtime.messages import CALL_REVISION, CallKind, CallRevision
from slipway_runtime.pools import Pool
from slipway_runtime.serialization import dump_json
from slipway_runtime.store_calls import StoreCalls
from slipway_runtime.user_loop import UserLoop

log = logging.getLogger(__name__)

_MAX_MESSAGE = 2_000
_READ = "SELECT kind, request FROM revision_calls WHERE call_id = %s AND response IS NULL"
_RESPOND = "UPDATE revision_calls SET response = %s::json WHERE call_id = %s"

Answer = Callable[[dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class CallActivities:
    """`pool` belongs to the user's loop, in which every answer is made."""

    load: ProjectLoader
    user_loop: UserLoop
    pool: Pool

    @activity.defn(name=CALL_REVISION)
    async def call(self, call: CallRevision) -> None:
        """Answer a call; one that was withdrawn, or answered already, is left alone."""
        project = await self.load()
        answers: dict[str, Answer] = {}
        if project.stores is not None:
            answers |= StoreCalls(project.stores, self.pool).answers
        if project.auth is not None:
            answers |= project.auth.answers
        if project.app is not None:
            answers |= project.app.answers
        await self.user_loop.run(self._answer(call.call_id, answers))

    async def _answer(self, call_id: str, answers: Mapping[str, Answer]) -> None:
        async with self.pool.connection() as connection:
            row = await (await connection.execute(_READ, (call_id,))).fetchone()
        if row is None:
            return
        response = await _respond(row["kind"], answers.get(row["kind"]), row["request"])
        async with self.pool.connection() as connection:
            await connection.execute(_RESPOND, (dump_json(response).decode(), call_id))


async def _respond(kind: str, answer: Answer | None, request: dict[str, Any]) -> dict[str, Any]:
    if answer is None:
        known = kind in list(CallKind)
        return {"refused": f"This revision {'did not load' if known else f'does not answer {kind}'}."}
    try:
        return {"result": await answer(request)}
    except psycopg.OperationalError:
        raise
    except Exception as error:  # user code
        log.warning("call_failed kind=%s error=%s", kind, type(error).__name__)
        message = mask_secrets(str(error))[:_MAX_MESSAGE]
        return {"error": {"type": type(error).__name__, "message": message}}
