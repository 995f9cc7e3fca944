"""Messages of the PushWorkflow: branches that deployments follow (`build_on_push`)."""

from dataclasses import dataclass

PUSH_WORKFLOW = "push"
PUSH_SCHEDULE = "push"
FIND_FOLLOWERS = "find_followers"
LOOK_AT_BRANCHES = "look_at_branches"
BUILD_PUSHED = "build_pushed"


@dataclass(frozen=True)
class FollowBranches:
    """One look at all branches that are due."""

    # A branch that cannot be read is looked at again after this time, then after twice as long each time.
    retry_seconds: float = 60.0


@dataclass(frozen=True)
class LookAtBranches:
    """For one listener: it fetches the sources, so it is where they can be reached from."""

    listener_id: str
    retry_seconds: float


@dataclass(frozen=True)
class FollowedBranches:
    """Branches that were read, and revisions that came of it."""

    read: int
    built: int
