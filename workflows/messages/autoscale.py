"""Messages of the AutoscaleWorkflow (control plane contract §4.4)."""

from dataclasses import dataclass

AUTOSCALE_WORKFLOW = "autoscale"
AUTOSCALE_DEPLOYMENTS = "autoscale_deployments"
AUTOSCALE_SCHEDULE = "autoscale"


@dataclass(frozen=True)
class Autoscale:
    """One look at all deployments that may have more than their least number of workers."""

    # Runs that may wait for each worker process.
    pending_per_worker: int = 10
    # How long there must have been too many workers before any is taken away.
    scale_down_seconds: float = 1_800.0


@dataclass(frozen=True)
class Autoscaled:
    """Worker sets whose number of processes was changed."""

    grown: int
    shrunk: int
