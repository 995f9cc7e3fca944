"""Messages of the RolloutWorkflow, its RevisionWorkflow children and their activities (control plane contract §3.2)."""

from dataclasses import dataclass, field
from enum import StrEnum

from workflows.messages.revision import Description

ROLLOUT_WORKFLOW = "rollout"
REVISION_WORKFLOW = "revision"
SUBMIT_REVISION_SIGNAL = "submit_revision"
INTERRUPT_REVISION_SIGNAL = "interrupt_revision"
DELETE_DEPLOYMENT_SIGNAL = "delete_deployment"
DESCRIBE_ROLLOUT_QUERY = "describe"

# Executed by platform workers.
PROVISION_DEPLOYMENT = "provision_deployment"
ADMIT_REVISION = "admit_revision"
SET_REVISION_STATUS = "set_revision_status"
STORE_DESCRIPTION = "store_description"
ACTIVATE_REVISION = "activate_revision"
SET_RAMP = "set_ramp"
CLEAR_RAMP = "clear_ramp"
TALLY_RUNS = "tally_runs"
BEGIN_DELETION = "begin_deletion"
DELETE_RECORDS = "delete_records"
# Executed by the deployment's listener.
BUILD_REVISION = "build_revision"
START_WORKERS = "start_workers"
WATCH_WORKERS = "watch_workers"
STOP_WORKERS = "stop_workers"
REMOVE_DEPLOYMENT = "remove_deployment"


class DeploymentStatus(StrEnum):
    AWAITING_DATABASE = "AWAITING_DATABASE"
    READY = "READY"
    UNUSED = "UNUSED"
    AWAITING_DELETE = "AWAITING_DELETE"
    AWAITING_FINAL_DELETE = "AWAITING_FINAL_DELETE"
    UNKNOWN = "UNKNOWN"


class RevisionStatus(StrEnum):
    CREATING = "CREATING"
    QUEUED = "QUEUED"
    AWAITING_BUILD = "AWAITING_BUILD"
    BUILDING = "BUILDING"
    AWAITING_DEPLOY = "AWAITING_DEPLOY"
    DEPLOYING = "DEPLOYING"
    CREATE_FAILED = "CREATE_FAILED"
    BUILD_FAILED = "BUILD_FAILED"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    DEPLOYED = "DEPLOYED"
    SKIPPED = "SKIPPED"
    INTERRUPTED = "INTERRUPTED"
    UNKNOWN = "UNKNOWN"


_S = RevisionStatus
FAILED = frozenset({_S.CREATE_FAILED, _S.BUILD_FAILED, _S.DEPLOY_FAILED})
TERMINAL = FAILED | {_S.DEPLOYED, _S.SKIPPED, _S.INTERRUPTED}
# What may follow what. A redeploy takes a revision that was built from where it ended to AWAITING_DEPLOY.
TRANSITIONS: dict[RevisionStatus, frozenset[RevisionStatus]] = {
    _S.CREATING: frozenset(
        {_S.QUEUED, _S.AWAITING_BUILD, _S.AWAITING_DEPLOY, _S.CREATE_FAILED, _S.INTERRUPTED}
    ),
    _S.QUEUED: frozenset(
        {_S.AWAITING_BUILD, _S.AWAITING_DEPLOY, _S.CREATE_FAILED, _S.SKIPPED, _S.INTERRUPTED}
    ),
    _S.AWAITING_BUILD: frozenset({_S.BUILDING, _S.BUILD_FAILED, _S.INTERRUPTED}),
    _S.BUILDING: frozenset({_S.AWAITING_DEPLOY, _S.BUILD_FAILED, _S.INTERRUPTED}),
    _S.AWAITING_DEPLOY: frozenset({_S.DEPLOYING, _S.DEPLOY_FAILED, _S.INTERRUPTED}),
    _S.DEPLOYING: frozenset({_S.DEPLOYED, _S.DEPLOY_FAILED, _S.INTERRUPTED}),
    _S.DEPLOYED: frozenset({_S.AWAITING_DEPLOY}),
    _S.DEPLOY_FAILED: frozenset({_S.AWAITING_DEPLOY}),
    _S.INTERRUPTED: frozenset({_S.AWAITING_DEPLOY}),
    _S.SKIPPED: frozenset({_S.AWAITING_DEPLOY}),
    _S.CREATE_FAILED: frozenset(),
    _S.BUILD_FAILED: frozenset(),
}


def predecessors(status: str) -> list[str]:
    """The statuses from which a revision may come to `status`."""
    return [str(before) for before, after in TRANSITIONS.items() if status in after]


@dataclass(frozen=True)
class RampStep:
    """Send `percent` of the threads to the new revision for `pause_seconds`."""

    percent: float
    pause_seconds: float = 60.0


@dataclass(frozen=True)
class Limits:
    """Bounds of one rollout, chosen when it is asked for: a later change of settings cannot alter a replay."""

    build_seconds: float = 1_800.0
    # How long a new worker may take until it has imported its graphs and described them.
    probe_seconds: float = 120.0
    # How long runs in flight may go on on the old revision; then the new one resumes them.
    drain_seconds: float = 180.0
    # How long the listener may be away before a step counts as failed.
    listener_seconds: float = 3_600.0


@dataclass(frozen=True)
class SubmitRevision:
    """Roll out a revision. `redeploy`: from the build it has."""

    revision_id: str
    redeploy: bool = False
    limits: Limits = field(default_factory=Limits)
    ramp: list[RampStep] = field(default_factory=list)
    # Share of failed runs of the new revision beyond which a ramp is aborted, 0 to 1.
    ramp_max_error_share: float = 0.1


@dataclass(frozen=True)
class InterruptRevision:
    revision_id: str


@dataclass(frozen=True)
class DeleteDeployment:
    """Tear a deployment down; `delete_tracing_project` takes its traces along."""

    delete_tracing_project: bool = False


@dataclass(frozen=True)
class RolloutInput:
    """Start of a deployment's workflow; after continue-as-new it carries the queue over."""

    tenant_id: str
    deployment_id: str
    name: str
    listener_id: str
    provisioned: bool = False
    queue: list[SubmitRevision] = field(default_factory=list)


@dataclass(frozen=True)
class RolloutDescription:
    """Live state of a deployment's rollouts, as the query `describe` answers it."""

    rolling_out: str | None
    queued: list[str]
    stopping: list[str]


@dataclass(frozen=True)
class RevisionInput:
    """One rollout of one revision."""

    tenant_id: str
    deployment_id: str
    deployment_name: str
    listener_id: str
    revision: SubmitRevision


@dataclass(frozen=True)
class RevisionResult:
    """How a rollout ended, and the worker sets that it left to be stopped."""

    status: str
    retired: list[str] = field(default_factory=list)
    message: str | None = None


@dataclass(frozen=True)
class DeploymentRef:
    tenant_id: str
    deployment_id: str


@dataclass(frozen=True)
class RevisionRef:
    tenant_id: str
    deployment_id: str
    revision_id: str


@dataclass(frozen=True)
class SetRevisionStatus:
    revision: RevisionRef
    status: str
    message: str | None = None


@dataclass(frozen=True)
class AdmitRevision:
    revision: RevisionRef
    redeploy: bool = False


@dataclass(frozen=True)
class Admission:
    """Whether a submitted revision exists and what has to be done with it."""

    found: bool
    needs_build: bool = False
    # Why it cannot be rolled out; ends it as CREATE_FAILED.
    failure: str | None = None


@dataclass(frozen=True)
class StepResult:
    """A step that the user may have to correct: `failure` says what, None if the step succeeded."""

    failure: str | None = None


@dataclass(frozen=True)
class BuildRevision:
    revision: RevisionRef
    limit_seconds: float


@dataclass(frozen=True)
class StartWorkers:
    """Start a revision's workers as the set `worker_set_id`; repeating it changes nothing."""

    revision: RevisionRef
    listener_id: str
    worker_set_id: str
    drain_seconds: float


@dataclass(frozen=True)
class WatchWorkers:
    """Report workers that cannot start; ends when it is cancelled."""

    revision: RevisionRef
    worker_set_id: str


@dataclass(frozen=True)
class StopWorkers:
    """Stop a set of workers: asked first, killed after `drain_seconds`."""

    revision: RevisionRef
    worker_set_id: str
    drain_seconds: float


@dataclass(frozen=True)
class StoreDescription:
    revision: RevisionRef
    description: Description


@dataclass(frozen=True)
class ActivateRevision:
    """Make a revision the one that serves; all other sets of the deployment are to be stopped."""

    revision: RevisionRef
    worker_set_id: str


@dataclass(frozen=True)
class Activated:
    retired: list[str]


@dataclass(frozen=True)
class SetRamp:
    revision: RevisionRef
    percent: float


@dataclass(frozen=True)
class RunTally:
    """Runs of a revision that have ended since its ramp began."""

    ended: int
    failed: int


@dataclass(frozen=True)
class DeleteRecords:
    deployment: DeploymentRef
    delete_tracing_project: bool
