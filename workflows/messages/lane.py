"""Messages of the LaneWorkflow, which carries stateless runs."""

from dataclasses import dataclass, field

from workflows.messages.thread import CancelAction, Run

LANE_WORKFLOW = "lane"


@dataclass(frozen=True)
class LaneRun:
    """A stateless run on the temporary thread that was made for it; `due_at` in seconds since the epoch."""

    thread_id: str
    run: Run
    due_at: float = 0.0


@dataclass(frozen=True)
class CancelLaneRun:
    run_id: str
    thread_id: str
    action: str = CancelAction.INTERRUPT


@dataclass(frozen=True)
class LaneInput:
    """Start of a lane; after continue-as-new it carries over the runs that are not due yet."""

    tenant_id: str
    deployment_id: str
    idle_seconds: float = 60.0
    max_running: int = 500
    # Past so many events the lane hands new runs over, to reach a moment in which it can continue as new.
    drain_at_events: int = 20_000
    waiting: list[LaneRun] = field(default_factory=list)


@dataclass(frozen=True)
class LaneDescription:
    running: list[str]
    waiting: list[str]
