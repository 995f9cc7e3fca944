"""Messages of the trace store's retention."""

from dataclasses import dataclass, field
from enum import StrEnum

TRACE_RETENTION_WORKFLOW = "trace-retention"
TRACE_RETENTION_BATCH = "trace_retention_batch"
TRACE_RETENTION_SCHEDULE = "trace-retention"


class TraceRetention(StrEnum):
    """What is kept in order; storage.traces.retention says when something has expired."""

    PARTITIONS = "partitions"
    DELETED_PROJECTS = "deleted_projects"
    SHORTLIVED_RUNS = "shortlived_runs"
    LONGLIVED_RUNS = "longlived_runs"
    OBJECTS = "objects"


@dataclass(frozen=True)
class TraceRetentionInput:
    kinds: list[str] = field(default_factory=lambda: [str(kind) for kind in TraceRetention])
    # At most so many batches of each kind; the next firing goes on.
    batches: int = 500


@dataclass(frozen=True)
class TraceRetentionBatch:
    kind: str


@dataclass(frozen=True)
class TraceRetentionResult:
    """How much a batch dealt with, and whether more is waiting."""

    count: int
    more: bool
