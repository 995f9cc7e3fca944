"""Bodies of the control plane (control plane contract §2)."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator

from api.control_plane.fields import (
    Body,
    DeploymentTier,
    DeploymentType,
    Name,
    RevisionSource,
    Source,
    Text,
)
from api.control_plane.resource_spec import ResourceSpec

_SECRETS_BYTES = 512 * 1024
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,255}$")]


class Secret(Body):
    """An environment variable of the revision's workers."""

    name: SecretName
    value: Annotated[str, Field(max_length=128 * 1024)]

    @model_validator(mode="after")
    def _fits_an_environment(self) -> "Secret":
        if "\0" in self.value:
            raise ValueError("a secret's value must not contain a NUL character")
        return self


def _small_enough(secrets: "list[Secret] | None") -> None:
    if secrets and sum(len(secret.name) + len(secret.value.encode()) for secret in secrets) > _SECRETS_BYTES:
        raise ValueError(f"all secrets together must not exceed {_SECRETS_BYTES} bytes")


class SecretReference(Body):
    """An environment variable read from a Kubernetes secret."""

    name: SecretName
    secret_name: Text
    secret_key: Text


class ListenerConfig(Body):
    k8s_namespace: Text | None = None


class SourceConfigRequest(Body):
    """Control plane contract §2.3."""

    integration_id: UUID | None = None
    repo_url: Text | None = None
    deployment_type: DeploymentType | None = None
    build_on_push: bool | None = None
    custom_url: Text | None = None
    resource_spec: ResourceSpec | None = None
    listener_id: UUID | None = None
    listener_config: ListenerConfig | None = None
    install_command: Text | None = None
    build_command: Text | None = None
    template_id: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_words(cls, data: Any) -> Any:
        """The words of the documentation for the two types of today."""
        words = {"serverless": "dev_zero", "dedicated": "prod"}
        if isinstance(data, dict) and data.get("deployment_type") in words:
            return {**data, "deployment_type": words[data["deployment_type"]]}
        return data

    def given(self) -> dict[str, Any]:
        """The fields that are not null, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True, by_alias=True)


class SourceRevisionConfigRequest(Body):
    """Control plane contract §2.4."""

    repo_ref: Text | None = None
    langgraph_config_path: Text | None = None
    image_uri: Text | None = None
    source_tarball_path: Text | None = None

    def given(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


class DeploymentCreateRequest(Body):
    """Control plane contract §1.1, POST /v2/deployments."""

    name: Name
    source: Source
    source_config: SourceConfigRequest
    source_revision_config: SourceRevisionConfigRequest
    secrets: Annotated[list[Secret], Field(max_length=1_000)]
    secret_references: Annotated[list[SecretReference], Field(max_length=1_000)] | None = None
    shareable: bool = False
    route_through_gateway: bool = False

    @model_validator(mode="after")
    def _small(self) -> "DeploymentCreateRequest":
        _small_enough(self.secrets)
        return self


class RampStepRequest(Body):
    percent: Annotated[float, Field(gt=0, lt=100)]
    pause_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0


class RolloutRequest(Body):
    """An addition of this platform: how a revision takes over. Absent: at once."""

    steps: Annotated[list[RampStepRequest], Field(max_length=20)] = []
    max_error_share: Annotated[float, Field(ge=0, le=1)] = 0.1


class RevisionRequest(Body):
    """What may differ from one revision to the next."""

    source_config: SourceConfigRequest | None = None
    source_revision_config: SourceRevisionConfigRequest | None = None
    secrets: Annotated[list[Secret], Field(max_length=1_000)] | None = None
    secret_references: Annotated[list[SecretReference], Field(max_length=1_000)] | None = None
    revision_source: RevisionSource | None = None
    rollout: RolloutRequest | None = None

    @model_validator(mode="after")
    def _small(self) -> "RevisionRequest":
        _small_enough(self.secrets)
        return self


class DeploymentPatchRequest(RevisionRequest):
    """Control plane contract §1.1, PATCH /v2/deployments/{deployment_id}."""

    display_name: Annotated[Text, Field(min_length=1)] | None = None
    tracked_repo_ref: Annotated[Text, Field(min_length=1)] | None = None
    deployment_tier: DeploymentTier | None = None
    route_through_gateway: bool | None = None
    tracked_packages: Annotated[list[Text], Field(max_length=100)] | None = None
    # Not part of the contract's body: present only so that an attempt to change them is refused.
    name: Text | None = None
    source: Source | None = None


class DeploymentTierRequest(Body):
    deployment_tier: DeploymentTier


class ResourceTiersRequest(Body):
    compute_tier: DeploymentTier | None = None
    database_tier: DeploymentTier | None = None

    @model_validator(mode="after")
    def _something(self) -> "ResourceTiersRequest":
        if self.compute_tier is None and self.database_tier is None:
            raise ValueError("at least one of compute_tier and database_tier is required")
        return self


class SecretReply(Body):
    """A secret as it is read back: its value is masked."""

    name: str
    value: str


class DeploymentReply(Body):
    """Control plane contract §2.1."""

    id: UUID
    name: str
    source: Source
    source_config: dict[str, Any]
    source_revision_config: dict[str, Any]
    secrets: list[SecretReply]
    secret_references: list[dict[str, Any]] | None
    tenant_id: UUID
    created_at: datetime
    updated_at: datetime
    status: str
    latest_revision_id: UUID | None
    active_revision_id: UUID | None
    image_version: str | None
    shareable: bool
    route_through_gateway: bool
    tracer_session_id: UUID | None
    url: str | None
    is_preview: bool
    display_name: str | None
    is_managed_deep_agent: bool
    deployment_tier: DeploymentTier | None
    compute_tier: DeploymentTier | None
    database_tier: DeploymentTier | None


class DeploymentsList(Body):
    resources: list[DeploymentReply]
    offset: int


class RevisionReply(Body):
    """Control plane contract §2.2, with the reason of a failure in `status_message`."""

    id: UUID
    deployment_id: UUID
    created_at: datetime
    updated_at: datetime
    status: str
    status_message: str | None
    source: Source
    source_config: dict[str, Any]
    source_revision_config: dict[str, Any]


class RevisionsList(Body):
    resources: list[RevisionReply]
    offset: int


class UploadUrlReply(Body):
    upload_url: str
    object_path: str
    upload_headers: dict[str, str]


class LogsResponse(Body):
    logs: list[dict[str, Any]]
    next_offset: str | None


class FreeCount(Body):
    count: int
