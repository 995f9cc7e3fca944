"""What the platform and this worker say to each other: the runtime's own copy of the wire.

Nothing of the platform is importable beside a user's code, so these shapes are written twice; a test compares
them with `workflows.messages`, field by field.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

EXECUTE_RUN = "execute_run"
DESCRIBE_REVISION = "describe_revision"
UPDATE_STATE = "update_state"
CALL_REVISION = "call_revision"

# Who waits for a thread or a run listens here. Payload: thread ids, separated by spaces; the mark after one says that
# there are new events, and that nothing else of the thread has changed.
NOTIFY_CHANNEL = "slipway_threads"
ONLY_EVENTS = "~"


def deployment_queue(deployment_id: str) -> str:
    """Versioned queue of a deployment's runs: build id = revision id."""
    return f"deployment-{deployment_id}"


def revision_queue(revision_id: str) -> str:
    """Queue for what is meant for exactly this revision."""
    return f"revision-{revision_id}"


def worker_set_queue(worker_set_id: str) -> str:
    """Queue for what is meant for workers of exactly this start of a revision: its probe."""
    return f"worker-set-{worker_set_id}"


@dataclass(frozen=True)
class ExecuteRun:
    """Ask a revision worker to execute a run, from its start or from its last checkpoint."""

    run_id: str
    thread_id: str


class Outcome(StrEnum):
    """How an attempt ended, as the revision worker tells the workflow."""

    SUCCESS = "success"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    TIMEOUT = "timeout"
    MISSING = "missing"
    SETTLED = "settled"
    RELEASED = "released"


@dataclass(frozen=True)
class RunResult:
    outcome: str


@dataclass(frozen=True)
class GraphDescription:
    """One graph of a revision, as stored at deploy time."""

    graph_id: str
    description: str | None = None
    schemas: dict[str, Any] = field(default_factory=dict)
    drawings: dict[str, Any] = field(default_factory=dict)
    subgraphs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """What a revision's worker found when it loaded the project."""

    graphs: list[GraphDescription]
    langgraph_version: str
    runtime_version: str
    python_version: str
    # Sections of langgraph.json that the platform acts on: auth, checkpointer, http, store, webhooks.
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UpdateState:
    """Write to a thread's state as a node."""

    thread_id: str
    update_id: str


class CallKind(StrEnum):
    """What a worker is asked; docs/architecture/revision-calls.md says what request and response hold."""

    STORE_PUT = "store_put"
    STORE_SEARCH = "store_search"
    AUTHENTICATE = "authenticate"
    AUTHORIZE = "authorize"
    HTTP = "http"


@dataclass(frozen=True)
class CallRevision:
    """Answer the row `revision_calls` that `call_id` names: payloads carry no user data.

    The worker writes `response`: `{"result": ...}`, `{"refused": "why"}` where the request is at fault, or
    `{"error": {"type", "message"}}` where the user's code raised.
    """

    call_id: str
