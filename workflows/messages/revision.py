"""What the platform asks of exactly one revision's worker, on the queue `revision-<id>`."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

DESCRIBE_REVISION = "describe_revision"
UPDATE_STATE = "update_state"
# Executed by platform workers, after it.
SETTLE_STATE_UPDATE = "settle_state_update"
CALL_REVISION = "call_revision"


@dataclass(frozen=True)
class GraphDescription:
    """One graph of a revision, as stored at deploy time (agent server contract §3.2)."""

    graph_id: str
    description: str | None = None
    # JSON schemas under input, output, state, config, context; null where the graph has none.
    schemas: dict[str, Any] = field(default_factory=dict)
    # {"nodes", "edges"}: drawing by xray depth: "0", "1", ... up to the deepest that differs.
    drawings: dict[str, Any] = field(default_factory=dict)
    # Namespace -> schemas, of subgraphs; recursive.
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
    """Write to a thread's state as a node (agent server contract §3.3, POST state, and supersteps of a new thread).

    What to write lies in the row `state_updates` that `update_id` names: payloads carry no user data. The worker

    1. sets `claimed_at` where it is null (no row: it was withdrawn, nothing to do) and reads `graph_id` and `request`:
       `{"checkpoint": {"checkpoint_id", "checkpoint_ns", "checkpoint_map"} | null, "supersteps": [[{"values",
       "as_node", "command"}]], "configurable": {...}, "metadata": {...}}`;
    2. applies the supersteps one after another (`abulk_update_state`) on that checkpoint, or on the newest one; every
       write runs behind `slipway_fence_update(update_id)`, and metadata of its checkpoints carries `update_id`, by
       which a repeated attempt finds what an earlier one has written;
    3. stores the public states in `thread_states`, and never touches `threads`, which SETTLE_STATE_UPDATE refreshes;
    4. writes `response`: `{"checkpoint": {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"}}`, or
       `{"error": "..."}` where the request is at fault (an unknown node, values that no channel takes).
    """

    thread_id: str
    update_id: str


@dataclass(frozen=True)
class StateUpdate:
    """One state update in a thread's queue; `wait_seconds` bounds the wait for a worker."""

    thread_id: str
    update_id: str
    revision_id: str
    wait_seconds: float = 10.0
    execute_seconds: float = 30.0


class StateUpdateOutcome(StrEnum):
    ANSWERED = "answered"
    # Nobody polls the revision's queue.
    NO_WORKER = "no_worker"
    # The worker died or did not end in time.
    FAILED = "failed"


@dataclass(frozen=True)
class SettleStateUpdate:
    """Write down how an update ended: from then on no worker may write for it. The thread shows its newest state."""

    thread_id: str
    update_id: str
    outcome: str


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
