"""Messages of the ThreadWorkflow and of the activity that executes a run."""

from dataclasses import dataclass, field
from enum import StrEnum

from workflows.messages.revision import StateUpdate

THREAD_WORKFLOW = "thread"
SUBMIT_SIGNAL = "submit"
CANCEL_SIGNAL = "cancel"
UPDATE_SIGNAL = "update_state"
DESCRIBE_QUERY = "describe"

# Executed by revision workers on the deployment's queue.
EXECUTE_RUN = "execute_run"
# Executed by platform workers.
SETTLE_RUN = "settle_run"
ROLL_BACK_RUN = "roll_back_run"


class Strategy(StrEnum):
    """What happens to a thread's runs when a new one arrives (agent server contract §1)."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"


class CancelAction(StrEnum):
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"


class RunStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    ERROR = "error"
    SUCCESS = "success"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Run:
    """One run in a thread's queue."""

    run_id: str
    strategy: str = Strategy.ENQUEUE
    after_seconds: float = 0.0
    timeout_seconds: float = 86_400.0
    max_attempts: int = 3
    # Activity priority 1 (first) to 5 of the run on its deployment's queue; 0: the server's default.
    priority: int = 0
    # Whether somebody wants to be told of the run's end; whom, lies in the run's row.
    webhook: bool = False


@dataclass(frozen=True)
class CancelRun:
    run_id: str
    action: str = CancelAction.INTERRUPT


@dataclass(frozen=True)
class QueuedRun:
    """A run that waits: for its turn, or first for `due_at` (seconds since the epoch, 0: due at once)."""

    run: Run
    due_at: float = 0.0


@dataclass(frozen=True)
class ThreadInput:
    """Start of a thread's workflow; after continue-as-new it carries over what waits."""

    tenant_id: str
    deployment_id: str
    thread_id: str
    idle_seconds: float = 60.0
    queue: list[QueuedRun] = field(default_factory=list)
    updates: list[StateUpdate] = field(default_factory=list)


@dataclass(frozen=True)
class ThreadDescription:
    """Live state of a thread's queue, as the query `describe` answers it."""

    running: str | None
    waiting: list[str]
    delayed: list[str]


@dataclass(frozen=True)
class ExecuteRun:
    """Ask a revision worker to execute a run, from its start or from its last checkpoint."""

    run_id: str
    thread_id: str


class Outcome(StrEnum):
    """How an attempt ended, as the revision worker tells the workflow. The run's row is already settled."""

    SUCCESS = "success"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    TIMEOUT = "timeout"
    # No row: its creation was never committed, or it was deleted.
    MISSING = "missing"
    # The row had ended before this attempt began.
    SETTLED = "settled"
    # The worker was told to stop and gave the run back unfinished; it goes on elsewhere, from its last
    # checkpoint, and this does not count as a failed attempt.
    RELEASED = "released"


@dataclass(frozen=True)
class RunResult:
    outcome: str


@dataclass(frozen=True)
class SettleRun:
    """Give a run its final status where no revision worker did."""

    run_id: str
    thread_id: str
    status: str
    error: str | None = None
    message: str | None = None


@dataclass(frozen=True)
class RollBackRun:
    """Delete a run with its checkpoints, states and events."""

    run_id: str
    thread_id: str
