"""Autoscaling: the number of worker processes follows the runs that wait (control plane contract §4.4)."""

import math
from datetime import UTC, datetime

import structlog
from temporalio import activity

from storage.autoscaling import Load, loads, note_surplus, set_replicas
from storage.database import Database
from workflows.messages.autoscale import AUTOSCALE_DEPLOYMENTS, Autoscale, Autoscaled

log = structlog.get_logger()


class AutoscaleActivities:
    """Idempotent: what it writes depends only on what it reads."""

    def __init__(self, database: Database, worker_slots: int) -> None:
        self._database = database
        self._worker_slots = worker_slots

    @activity.defn(name=AUTOSCALE_DEPLOYMENTS)
    async def autoscale(self, autoscale: Autoscale) -> Autoscaled:
        """Grow at once, shrink only after a while."""
        grown, shrunk = 0, 0
        async with self._database.connection() as connection:
            for load in await loads(connection):
                needed = needed_replicas(load, autoscale.pending_per_worker, self._worker_slots)
                if needed > load.replicas:
                    await set_replicas(connection, load, needed)
                    grown += 1
                elif needed < load.replicas and _has_lasted(load, autoscale.scale_down_seconds):
                    await set_replicas(connection, load, needed)
                    shrunk += 1
                else:
                    await note_surplus(connection, load, surplus=needed < load.replicas)
        if grown or shrunk:
            log.info("autoscaled", grown=grown, shrunk=shrunk)
        return Autoscaled(grown, shrunk)


def needed_replicas(load: Load, pending_per_worker: int, worker_slots: int) -> int:
    """Processes for what waits and what runs, within the revision's bounds; at least one while there is any run."""
    spec = load.resource_spec
    least = _first(spec.get("queue_min_scale"), spec.get("min_scale"), 1)
    most = max(least, _first(spec.get("queue_max_scale"), spec.get("max_scale"), max(least, 1)))
    wanted = max(math.ceil(load.pending / pending_per_worker), math.ceil(load.running / worker_slots))
    return min(max(wanted, least), most)


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _has_lasted(load: Load, seconds: float) -> bool:
    since = load.surplus_since
    return since is not None and (datetime.now(UTC) - since).total_seconds() >= seconds
