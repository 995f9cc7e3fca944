"""The environment variables of a revision worker."""

import os
from pathlib import Path

from psycopg.conninfo import make_conninfo

from activities.subprocesses import inherited_environment
from settings import Settings
from storage.deployments import Deployment
from storage.revisions import Revision
from storage.secrets import SecretBox
from storage.worker_roles import role_name
from storage.worker_sets import WorkerSet


def user_secrets(box: SecretBox, revision: Revision) -> dict[str, str]:
    """A revision's secrets in clear."""
    secrets: dict[str, str] = box.decrypt(revision.secrets) if revision.secrets else {}
    return secrets


def worker_environment(
    settings: Settings,
    box: SecretBox,
    database_url: str,
    deployment: Deployment,
    revision: Revision,
    worker_set: WorkerSet,
) -> tuple[dict[str, str], list[str]]:
    """The variables, and which of their values must not appear in logs.

    The platform's own variables win over the user's, with one exception: who sends traces elsewhere names both
    LANGSMITH_ENDPOINT and LANGSMITH_API_KEY.
    """
    assert deployment.worker_credentials is not None
    credentials: dict[str, str] = box.decrypt(deployment.worker_credentials)
    theirs = user_secrets(box, revision)
    ours = {
        "PYTHONUNBUFFERED": "1",
        "SLIPWAY_DEPLOYMENT_ID": str(deployment.id),
        "SLIPWAY_REVISION_ID": str(revision.id),
        "SLIPWAY_TENANT_ID": str(deployment.tenant_id),
        "SLIPWAY_WORKER_DATABASE_URL": make_conninfo(
            database_url,
            user=role_name(deployment.id),
            password=credentials["password"],
            application_name=f"slipway worker {revision.id}",
        ),
        "SLIPWAY_WORKER_SET_ID": str(worker_set.id),
        "SLIPWAY_WORKER_SLOTS": str(settings.worker_slots),
        "SLIPWAY_WORKER_GRACE_SECONDS": f"{worker_set.drain_seconds:g}",
        "SLIPWAY_RUN_MAX_EVENTS": str(settings.run_max_events),
        "SLIPWAY_RUN_MAX_EVENT_BYTES": str(settings.run_max_event_bytes),
        "TEMPORAL_ADDRESS": settings.temporal_target,
        "LANGSMITH_PROJECT": deployment.name,
        "LANGSMITH_TENANT_ID": str(deployment.tenant_id),
        "LANGSMITH_DEPLOYMENT_NAME": deployment.name,
        "LANGSMITH_HOST_PROJECT_ID": str(deployment.id),
        "LANGSMITH_HOST_PROJECT_NAME": deployment.name,
        "LANGSMITH_HOST_REVISION_ID": str(revision.id),
    }
    if not {"LANGSMITH_ENDPOINT", "LANGSMITH_API_KEY"} <= theirs.keys():
        ours["LANGSMITH_ENDPOINT"] = f"{settings.internal_api_url}/api/v1"
        ours["LANGSMITH_API_KEY"] = credentials["tracing_key"]
    temporal = {name: value for name, value in os.environ.items() if name.startswith("TEMPORAL_")}
    variables = {**inherited_environment(), "LANGSMITH_TRACING": "true", **theirs, **temporal, **ours}
    return variables, [*credentials.values(), *theirs.values()]


def process_environment(variables: dict[str, str], build: dict[str, str]) -> dict[str, str]:
    """`variables` with what a process on the listener's host needs: where its project and its tools are."""
    environment = Path(build["python"]).parent
    return {
        **variables,
        "SLIPWAY_PROJECT_CONFIG": build["config"],
        "HOME": str(Path(build["folder"]) / "home"),
        "VIRTUAL_ENV": str(environment.parent),
        "PATH": f"{environment}{os.pathsep}{variables.get('PATH', '/usr/bin:/bin')}",
    }
