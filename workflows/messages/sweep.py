"""Messages of the sweep: what has expired is deleted, in bounded batches."""

from dataclasses import dataclass, field
from enum import StrEnum

SWEEP_WORKFLOW = "sweep"
SWEEP_BATCH = "sweep_batch"
SWEEP_SCHEDULE = "sweep"


class Sweep(StrEnum):
    """What can be swept; storage.sweeps says when a row of it has expired."""

    THREADS = "threads"
    THREAD_EVENTS = "thread_events"
    STATE_UPDATES = "state_updates"
    STORE_ITEMS = "store_items"
    REVISION_CALLS = "revision_calls"
    WEBHOOK_DELIVERIES = "webhook_deliveries"
    RUN_WATCHERS = "run_watchers"


@dataclass(frozen=True)
class SweepInput:
    kinds: list[str] = field(default_factory=lambda: [str(kind) for kind in Sweep])
    # At most so many batches of each kind; the next firing goes on.
    batches: int = 100


@dataclass(frozen=True)
class SweepBatch:
    kind: str


@dataclass(frozen=True)
class Swept:
    """How many rows a batch dealt with, and whether more are waiting."""

    rows: int
    more: bool
