"""How a deployment's queue stands."""

from dataclasses import dataclass

from storage.scope import ScopedRepository

# A run with after_seconds waits only once it is due.
_QUEUE = """
WITH unfinished AS (
    SELECT thread_id, position, status, started_at,
        created_at + make_interval(secs => coalesce(after_seconds, 0)) AS due_at
    FROM runs WHERE {scope} AND status IN ('pending', 'running')
), waiting AS (
    SELECT extract(epoch FROM now() - u.due_at)::double precision AS seconds, NOT EXISTS (
        SELECT FROM unfinished o WHERE o.thread_id = u.thread_id
        AND (o.status = 'running' OR (o.position < u.position AND o.due_at <= now()))) AS unblocked
    FROM unfinished u WHERE u.status = 'pending' AND u.due_at <= now()
)
SELECT
    (SELECT count(*) FROM unfinished WHERE status = 'pending') AS pending,
    (SELECT count(*) FROM unfinished WHERE status = 'running') AS running,
    (SELECT max(seconds) FROM waiting) AS wait_max,
    (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FROM waiting) AS wait_median,
    (SELECT max(seconds) FROM waiting WHERE unblocked) AS unblocked_wait_max
"""


@dataclass(frozen=True)
class QueueMetrics:
    """Counts of runs; waits in seconds, None where nothing waits."""

    pending: int
    running: int
    wait_max: float | None
    wait_median: float | None
    unblocked_wait_max: float | None
    replicas: int


class Queues(ScopedRepository):
    """The queue of one deployment."""

    async def metrics(self) -> QueueMetrics:
        row = await self.one(_QUEUE)
        workers = await self.one(
            "SELECT coalesce(sum(replicas), 0)::int AS replicas FROM worker_sets"
            " WHERE {scope} AND desired = 'running'"
        )
        assert row is not None and workers is not None, "aggregates always give a row"
        return QueueMetrics(**row, replicas=workers["replicas"])
