"""Messages of a cron's schedule (docs/architecture/crons.md)."""

from dataclasses import dataclass

CRON_WORKFLOW = "cron"
# Executed by platform workers.
FIRE_CRON = "fire_cron"


@dataclass(frozen=True)
class CronInput:
    """Action of a cron's schedule."""

    tenant_id: str
    deployment_id: str
    cron_id: str


@dataclass(frozen=True)
class FireCron:
    """Create the run of one firing, which `scheduled_at` (ISO 8601, UTC) names; repeating it changes nothing."""

    cron: CronInput
    scheduled_at: str


@dataclass(frozen=True)
class Firing:
    """The run that a firing created, or why it created none."""

    run_id: str | None = None
    thread_id: str | None = None
    skipped: str | None = None
