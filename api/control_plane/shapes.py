"""Rows as the control plane's clients see them."""

from api.control_plane.schemas import DeploymentReply, RevisionReply
from api.control_plane.secrets import masked
from api.services import Services
from storage.deployments import Deployment
from storage.listeners import BUILT_IN_LISTENER_ID
from storage.revisions import Revision

_DEFAULT_TIERS = {"prod": "DEDICATED_S", "dev": "DEDICATED_S"}


def deployment_url(services: Services, name: str, mount_prefix: str | None = None) -> str:
    """Where a deployment's agent server is reached; with a prefix of its own, below that as well."""
    return f"{services.settings.api_url}/deployments/{name}{mount_prefix or ''}"


def deployment_reply(services: Services, deployment: Deployment) -> DeploymentReply:
    """Control plane contract §2.1."""
    url = deployment_url(services, deployment.name, deployment.mount_prefix)
    deployment_type = deployment.source_config.get("deployment_type", "dev_zero")
    tier = deployment.deployment_tier or _DEFAULT_TIERS.get(deployment_type, "SERVERLESS_S")
    source_config = {"custom_url": url, **deployment.source_config}
    if deployment.listener_id != BUILT_IN_LISTENER_ID:
        source_config["listener_id"] = str(deployment.listener_id)
    return DeploymentReply.model_validate(
        {
            "id": deployment.id,
            "name": deployment.name,
            "source": deployment.source,
            "source_config": source_config,
            "source_revision_config": deployment.source_revision_config,
            "secrets": masked(services.secrets, deployment.secrets),
            "secret_references": deployment.secret_references,
            "tenant_id": deployment.tenant_id,
            "created_at": deployment.created_at,
            "updated_at": deployment.updated_at,
            "status": deployment.status,
            "latest_revision_id": deployment.latest_revision_id,
            "active_revision_id": deployment.active_revision_id,
            "image_version": deployment.source_revision_config.get("image_uri"),
            "shareable": deployment.shareable,
            "route_through_gateway": deployment.route_through_gateway,
            "tracer_session_id": deployment.tracer_session_id,
            "url": source_config["custom_url"],
            "is_preview": False,
            "display_name": deployment.display_name,
            "is_managed_deep_agent": False,
            "deployment_tier": deployment.compute_tier or tier,
            "compute_tier": deployment.compute_tier or tier,
            "database_tier": deployment.database_tier or tier,
        }
    )


def revision_reply(revision: Revision) -> RevisionReply:
    """Control plane contract §2.2."""
    return RevisionReply.model_validate(
        {
            "id": revision.id,
            "deployment_id": revision.deployment_id,
            "created_at": revision.created_at,
            "updated_at": revision.updated_at,
            "status": revision.status,
            "status_message": revision.status_message,
            "source": revision.source,
            "source_config": revision.source_config,
            "source_revision_config": revision.source_revision_config,
        }
    )
