"""Taking a run: its next attempt begins, and every earlier one is fenced off."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout

from slipway_runtime.messages import ExecuteRun, Outcome
from slipway_runtime.pools import Pool

log = logging.getLogger(__name__)

# Whoever creates a run commits its row just after the workflow heard of it.
_ROW_SECONDS = 10.0
_DATABASE_SECONDS = 60.0

_CLAIM = """
UPDATE runs SET attempt = attempt + 1, status = 'running', revision_id = %(revision_id)s,
       started_at = coalesce(started_at, now()), updated_at = now()
WHERE run_id = %(run_id)s AND thread_id = %(thread_id)s AND status IN ('pending', 'running')
RETURNING attempt, assistant_id, graph_id, kwargs, metadata, inject
"""

_HAS_ENDED = "SELECT FROM runs WHERE run_id = %(run_id)s AND status NOT IN ('pending', 'running')"


@dataclass(frozen=True)
class Claim:
    """A run and the number of the attempt that may now write. `inject`: it only brings a message."""

    run_id: str
    thread_id: str
    attempt: int
    assistant_id: str
    graph_id: str
    kwargs: dict[str, Any]
    metadata: dict[str, Any]
    inject: bool = False


async def claim_run(pool: Pool, request: ExecuteRun, revision_id: str) -> Claim | Outcome:
    """The run, or why there is nothing to do: MISSING or SETTLED.

    Raises:
        psycopg.OperationalError: PostgreSQL was away for a minute.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    delay = 0.005
    while True:
        try:
            found = await _try_claim(pool, request, revision_id)
        except (psycopg.OperationalError, PoolTimeout) as error:
            if loop.time() - started > _DATABASE_SECONDS:
                raise
            log.warning("claim_failed run_id=%s error=%s", request.run_id, type(error).__name__)
            found = None
            delay = max(delay, 0.5)
        else:
            if found is not None:
                return found
            if loop.time() - started > _ROW_SECONDS:
                return Outcome.MISSING
        await asyncio.sleep(delay)
        delay = min(delay * 2, 1.0)


async def _try_claim(pool: Pool, request: ExecuteRun, revision_id: str) -> Claim | Outcome | None:
    ids = {"run_id": request.run_id, "thread_id": request.thread_id, "revision_id": revision_id}
    async with pool.connection() as connection:
        row = await (await connection.execute(_CLAIM, ids)).fetchone()
        if row is not None:
            return Claim(
                request.run_id,
                request.thread_id,
                row["attempt"],
                str(row["assistant_id"]),
                row["graph_id"],
                row["kwargs"],
                row["metadata"],
                row["inject"],
            )
        # Its creation may be committed between the two statements: then it is still to be taken.
        cursor = await connection.execute(_HAS_ENDED, ids)
        return Outcome.SETTLED if await cursor.fetchone() is not None else None
