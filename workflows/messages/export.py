"""Messages of the ExportWorkflow, of scheduled exports and of their activities (bulk export contract §2)."""

from dataclasses import dataclass, field
from enum import StrEnum

EXPORT_WORKFLOW = "export"
CANCEL_EXPORT_SIGNAL = "cancel"

BEGIN_EXPORT = "begin_export"
PLAN_EXPORT = "plan_export"
LIST_EXPORT_RUNS = "list_export_runs"
RUN_EXPORT = "run_export"
FINISH_EXPORT = "finish_export"


class ExportStatus(StrEnum):
    """Status of an export and of its runs (mission document, States and transitions)."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEDOUT = "TIMEDOUT"


UNFINISHED = (ExportStatus.CREATED, ExportStatus.RUNNING)


@dataclass(frozen=True)
class ExportPolicy:
    """Bounds of one export, chosen when it is created: a later change of settings cannot alter a replay."""

    timeout_seconds: float = 72 * 3600.0
    # Export runs of one export that are in flight at once.
    window: int = 8
    heartbeat_timeout_seconds: float = 15.0
    retry_seconds: float = 1.0
    max_retry_seconds: float = 30.0
    # How long uploads in flight may take to stop when an export ends early.
    grace_seconds: float = 60.0


@dataclass(frozen=True)
class Written:
    """What the finished runs of an export have written, for whoever watches the workflow."""

    rows: int = 0
    bytes: int = 0
    files: int = 0


@dataclass(frozen=True)
class ExportInput:
    """Start of an export's workflow; after continue-as-new it carries on from the runs that are left."""

    tenant_id: str
    export_id: str
    policy: ExportPolicy = field(default_factory=ExportPolicy)
    # Seconds since the epoch; None: the timeout counts from the workflow's start.
    deadline: float | None = None
    finished_runs: int = 0
    planned_runs: int | None = None
    planned_rows: int = 0
    written: Written = field(default_factory=Written)


@dataclass(frozen=True)
class ExportRef:
    tenant_id: str
    export_id: str


@dataclass(frozen=True)
class Begun:
    """What the workflow found when it began."""

    # False: its creation was never committed.
    found: bool
    status: str = ExportStatus.CREATED


@dataclass(frozen=True)
class Plan:
    """How many runs are left to execute, and of how many rows. `failure`: what the user has to correct."""

    runs: int = 0
    rows: int = 0
    failure: str | None = None


@dataclass(frozen=True)
class ListExportRuns:
    """The unfinished runs of an export, oldest first."""

    export: ExportRef
    limit: int


@dataclass(frozen=True)
class PendingRun:
    run_id: str
    # Project and day, for whoever reads the history.
    summary: str


@dataclass(frozen=True)
class PendingRuns:
    runs: list[PendingRun]


@dataclass(frozen=True)
class RunExport:
    """Write one project and UTC day; resumes after the files that an earlier attempt has finished."""

    export: ExportRef
    run_id: str


@dataclass(frozen=True)
class RunExportResult:
    """How a run ended. `failure`: what the user has to correct; the run's row says so already."""

    status: str
    rows: int = 0
    bytes: int = 0
    files: int = 0
    failure: str | None = None


@dataclass(frozen=True)
class FinishExport:
    """Settle an export: abort uploads that are left, write its manifest if it is complete, then its status."""

    export: ExportRef
    status: str
    error: str | None = None


@dataclass(frozen=True)
class Finished:
    """The status that was stored: `FAILED` where a complete export's manifest could not be written."""

    status: str
    error: str | None = None
