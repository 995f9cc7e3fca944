"""Messages of scheduled exports: a schedule's windows, and what spawns an export for each."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from workflows.messages.export import ExportPolicy

SPAWN_WORKFLOW = "export-window"
BACKFILL_WORKFLOW = "export-backfill"
CANCEL_BACKFILL_SIGNAL = "cancel"

SPAWN_EXPORT = "spawn_export"
LIST_MISSING_WINDOWS = "list_missing_windows"
DELETE_EXPORT_SCHEDULE = "delete_export_schedule"


@dataclass(frozen=True)
class Windows:
    """The windows of a schedule: number k is [start + k * interval, start + (k + 1) * interval).

    It is due `delay` after its end, so that runs which arrive late are in it.
    """

    start_time: str  # ISO 8601, UTC
    interval_seconds: float
    delay_seconds: float = 600.0

    @property
    def _start(self) -> datetime:
        return datetime.fromisoformat(self.start_time)

    def bounds(self, number: int) -> tuple[datetime, datetime]:
        interval = timedelta(seconds=self.interval_seconds)
        return self._start + number * interval, self._start + (number + 1) * interval

    def due(self, number: int) -> datetime:
        return self.bounds(number)[1] + timedelta(seconds=self.delay_seconds)

    def last_due(self, moment: datetime) -> int:
        """Number of the newest window that is due at `moment`; negative before the first."""
        since = moment - self._start - timedelta(seconds=self.delay_seconds)
        return int(since // timedelta(seconds=self.interval_seconds)) - 1


@dataclass(frozen=True)
class ScheduledExport:
    """What a schedule's action starts with."""

    tenant_id: str
    schedule_id: str
    windows: Windows
    # Windows before this one are the backfill's.
    first_window: int = 0
    policy: ExportPolicy = field(default_factory=ExportPolicy)


@dataclass(frozen=True)
class Backfill:
    """Spawn the windows from `next_window` up to, not including, `until_window`, some at a time."""

    export: ScheduledExport
    next_window: int
    until_window: int
    at_once: int = 1


@dataclass(frozen=True)
class SpawnExport:
    """Store the export of one window."""

    export: ScheduledExport
    window: int


@dataclass(frozen=True)
class Spawned:
    """The window's export. `found` is False if the schedule was never committed, `active` if it has ended."""

    export_id: str | None
    found: bool = True
    active: bool = True


@dataclass(frozen=True)
class ListMissingWindows:
    """Windows from `first_window` to `last_window` without an export, oldest first."""

    export: ScheduledExport
    last_window: int
    limit: int


@dataclass(frozen=True)
class MissingWindows:
    windows: list[int]
