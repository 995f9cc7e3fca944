"""Stable names: task queues and workflow ids. Never changed: running workflows hold them."""

PLATFORM_QUEUE = "platform"
EXPORT_QUEUE = "exports"


def deployment_queue(deployment_id: str) -> str:
    """Versioned queue of a deployment's runs: build id = revision id."""
    return f"deployment-{deployment_id}"


def revision_queue(revision_id: str) -> str:
    """Queue for what is meant for exactly this revision."""
    return f"revision-{revision_id}"


def worker_set_queue(worker_set_id: str) -> str:
    """Queue for what is meant for workers of exactly this start of a revision: its probe."""
    return f"worker-set-{worker_set_id}"


def listener_queue(listener_id: str) -> str:
    """Queue that one listener polls."""
    return f"listener-{listener_id}"


def thread_workflow_id(thread_id: str) -> str:
    return f"thread/{thread_id}"


def lane_workflow_id(deployment_id: str, lane: int) -> str:
    return f"lane/{deployment_id}/{lane}"


def rollout_workflow_id(deployment_id: str) -> str:
    return f"deployment/{deployment_id}"


def revision_workflow_id(revision_id: str) -> str:
    return f"revision/{revision_id}"


def export_workflow_id(export_id: str) -> str:
    return f"export/{export_id}"


def export_schedule_id(export_id: str) -> str:
    return f"export-schedule/{export_id}"


def webhook_workflow_id(run_id: str) -> str:
    return f"webhook/{run_id}"


def cron_schedule_id(cron_id: str) -> str:
    return f"cron/{cron_id}"


def export_window_workflow_id(export_id: str) -> str:
    """Of what a schedule starts; the server appends the scheduled time."""
    return f"export-window/{export_id}"


def export_backfill_workflow_id(export_id: str) -> str:
    return f"export-backfill/{export_id}"
