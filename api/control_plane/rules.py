"""What a deployment's configuration must look like, beyond its schema (control plane contract §1.1, §2)."""

from typing import Any

from api.control_plane.schemas import DeploymentPatchRequest
from api.errors import BadRequestError
from storage.deployments import Deployment
from storage.listeners import Listener

# Fields of source_config that only these sources may set; the CLI sends deployment_type for all of them.
_ONLY_FOR: dict[str, tuple[str, ...]] = {
    "integration_id": ("github",),
    "repo_url": ("github",),
    "build_on_push": ("github",),
    "custom_url": ("external_docker",),
    "listener_id": ("external_docker",),
    "listener_config": ("external_docker",),
    "install_command": ("github", "internal_source"),
    "build_command": ("github", "internal_source"),
    "template_id": ("internal_template",),
}
_ONLY_FOR_REVISION: dict[str, tuple[str, ...]] = {
    "repo_ref": ("github",),
    "langgraph_config_path": ("github", "internal_source"),
    "image_uri": ("external_docker", "internal_docker"),
    "source_tarball_path": ("internal_source",),
}
_IMMUTABLE = ("integration_id", "repo_url", "deployment_type", "listener_id", "template_id")
_NEEDED: dict[str, tuple[str, ...]] = {
    "github": ("repo_ref", "langgraph_config_path"),
    "external_docker": ("image_uri",),
    "internal_docker": ("image_uri",),
    "internal_source": ("source_tarball_path",),
}
BUILT_SOURCES = ("github", "internal_source")
_SCALE_TO_ZERO = ("dev_zero", "dev_free_zero")


def check_source_config(source: str, config: dict[str, Any]) -> None:
    """Refuse fields that do not belong to a source.

    Raises:
        BadRequestError: naming the field.
    """
    for field in config:
        if field in _ONLY_FOR and source not in _ONLY_FOR[field]:
            allowed = "' or '".join(_ONLY_FOR[field])
            raise BadRequestError(
                f"'source_config.{field}' is only valid for source '{allowed}', not '{source}'."
            )
    spec = config.get("resource_spec", {})
    deployment_type = config.get("deployment_type", "dev_zero")
    if spec.get("min_scale") == 0 and deployment_type not in _SCALE_TO_ZERO:
        raise BadRequestError(
            "'source_config.resource_spec.min_scale' may be 0 only for deployment type 'dev_zero'."
        )


def check_revision_config(source: str, config: dict[str, Any]) -> None:
    """Refuse fields that do not belong to a source, and paths that lead out of the project.

    Raises:
        BadRequestError: naming the field.
    """
    for field, value in config.items():
        if source not in _ONLY_FOR_REVISION[field]:
            allowed = "' or '".join(_ONLY_FOR_REVISION[field])
            raise BadRequestError(
                f"'source_revision_config.{field}' is only valid for source '{allowed}', not '{source}'."
            )
        if not value:
            raise BadRequestError(f"'source_revision_config.{field}' must not be empty.")
    path = config.get("langgraph_config_path", "langgraph.json")
    if path.startswith(("/", "~")) or ".." in path.split("/") or not path.endswith(".json"):
        raise BadRequestError(
            f"'source_revision_config.langgraph_config_path' must be the path of a JSON file inside the project,"
            f" not '{path}'."
        )


def check_creation(source: str, source_config: dict[str, Any], revision_config: dict[str, Any]) -> None:
    """What a new deployment needs.

    Raises:
        BadRequestError: naming what is missing.
    """
    if source == "internal_template":
        raise BadRequestError("Source 'internal_template' is not offered by this installation.")
    check_source_config(source, source_config)
    check_revision_config(source, revision_config)
    if source == "github":
        for field in ("repo_url",):
            if not source_config.get(field):
                raise BadRequestError(f"'source_config.{field}' is required for source 'github'.")
        missing = missing_source(source, revision_config)
        if missing:
            raise BadRequestError(f"'source_revision_config.{missing}' is required for source 'github'.")
    if source_config.get("build_on_push") and revision_config.get("repo_ref", "").startswith("refs/tags/"):
        raise BadRequestError("'source_config.build_on_push' cannot be combined with a tag in 'repo_ref'.")


def check_immutable(deployment: Deployment, request: DeploymentPatchRequest) -> None:
    """Refuse changes of what a deployment is once and for all.

    Raises:
        BadRequestError: naming the field.
    """
    if request.name is not None and request.name != deployment.name:
        raise BadRequestError("'name' of a deployment cannot be changed.")
    if request.source is not None and request.source != deployment.source:
        raise BadRequestError("'source' of a deployment cannot be changed.")
    given = request.source_config.given() if request.source_config else {}
    for field in _IMMUTABLE:
        if field in given and given[field] != deployment.source_config.get(field):
            raise BadRequestError(f"'source_config.{field}' of a deployment cannot be changed.")
    namespace = given.get("listener_config", {}).get("k8s_namespace")
    if namespace and namespace != deployment.source_config.get("listener_config", {}).get("k8s_namespace"):
        raise BadRequestError(
            "'source_config.listener_config.k8s_namespace' of a deployment cannot be changed."
        )


def missing_source(source: str, revision_config: dict[str, Any]) -> str | None:
    """The first field without which a revision of this source cannot be built or deployed."""
    return next((field for field in _NEEDED.get(source, ()) if not revision_config.get(field)), None)


def choose_listener(source: str, source_config: dict[str, Any], listeners: list[Listener]) -> Listener | None:
    """The listener that a new deployment is bound to; None: the built-in one.

    Raises:
        BadRequestError: none was named although the workspace has some, or an unknown one was.
    """
    wanted = source_config.get("listener_id")
    if wanted is None:
        if source == "external_docker" and listeners:
            ids = [str(listener.id) for listener in listeners]
            raise BadRequestError(
                "Source configuration error: 'source_config.listener_id' is required for workspace with available"
                f" listener IDs: {ids}"
            )
        return None
    chosen = next((listener for listener in listeners if str(listener.id) == wanted), None)
    if chosen is None:
        raise BadRequestError(f"Source configuration error: Listener ID {wanted} not found.")
    namespaces = chosen.compute_config.get("k8s_namespaces")
    namespace = source_config.get("listener_config", {}).get("k8s_namespace")
    if namespace and namespaces and namespace not in namespaces:
        raise BadRequestError(
            f"Source configuration error: namespace '{namespace}' is not one of the listener's: {namespaces}"
        )
    return chosen
