# ruff: noqa: N815 - the names are those of Kubernetes' own objects
"""ResourceSpec: how much of everything a revision gets (control plane contract §2.5)."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from api.control_plane.fields import Body, JsonObject, Text

Scale = Annotated[int, Field(ge=0, le=100)]
Cpu = Annotated[float, Field(ge=0.1, le=8), AfterValidator(lambda value: round(value, 1))]
CpuLimit = Annotated[float, Field(ge=0.1, le=16)]
AnyCpu = Annotated[float, Field(ge=0.1, le=128)]
MemoryMb = Annotated[int, Field(ge=64, le=1_048_576)]
Labels = Annotated[dict[Text, Text], Field(max_length=64)]


class ImagePullSecret(Body):
    name: Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class Volume(Body):
    """A Kubernetes volume: a name and one kind of source."""

    name: Text
    configMap: JsonObject | None = None
    secret: JsonObject | None = None
    emptyDir: JsonObject | None = None
    persistentVolumeClaim: JsonObject | None = None
    nfs: JsonObject | None = None
    projected: JsonObject | None = None
    downwardAPI: JsonObject | None = None
    csi: JsonObject | None = None


class VolumeMount(Body):
    name: Text
    mountPath: Text
    subPath: Text | None = None
    mountPropagation: Text | None = None
    readOnly: bool | None = None
    subPathExpr: Text | None = None


class EnvVar(Body):
    name: Text
    value: Text | None = None
    valueFrom: JsonObject | None = None


class Container(Body):
    """An init container or sidecar, in Kubernetes' own words."""

    name: Text
    image: Text
    imagePullPolicy: Literal["Always", "Never", "IfNotPresent"] | None = None
    command: list[Text] | None = None
    args: list[Text] | None = None
    workingDir: Text | None = None
    env: list[EnvVar] | None = None
    envFrom: list[JsonObject] | None = None
    resources: JsonObject | None = None
    volumeMounts: list[VolumeMount] | None = None
    securityContext: JsonObject | None = None
    restartPolicy: Literal["Always", "OnFailure"] | None = None


class ResourceSpec(Body):
    """All fields may be absent; a limit that is absent is twice the request, but for `redis_memory_limit_mb`."""

    min_scale: Scale | None = None
    max_scale: Scale | None = None
    cpu: Cpu | None = None
    cpu_limit: CpuLimit | None = None
    memory_mb: MemoryMb | None = None
    memory_limit_mb: MemoryMb | None = None
    queue_min_scale: Scale | None = None
    queue_max_scale: Scale | None = None
    queue_cpu: Cpu | None = None
    queue_cpu_limit: CpuLimit | None = None
    queue_memory_mb: MemoryMb | None = None
    queue_memory_limit_mb: MemoryMb | None = None
    redis_cpu: Cpu | None = None
    redis_cpu_limit: CpuLimit | None = None
    redis_memory_mb: MemoryMb | None = None
    redis_memory_limit_mb: MemoryMb | None = None
    db_cpu: AnyCpu | None = None
    db_cpu_limit: AnyCpu | None = None
    db_memory_mb: MemoryMb | None = None
    db_memory_limit_mb: MemoryMb | None = None
    db_storage_gi: Annotated[int, Field(ge=1, le=65_536)] | None = None
    db_max_connections: Annotated[int, Field(ge=1, le=10_000)] | None = None
    core_cpu: AnyCpu | None = None
    core_cpu_limit: AnyCpu | None = None
    core_memory_mb: MemoryMb | None = None
    core_memory_limit_mb: MemoryMb | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    service_account_name: Text | None = None
    image_pull_secrets: Annotated[list[ImagePullSecret], Field(max_length=20)] | None = None
    volumes: Annotated[list[Volume], Field(max_length=50)] | None = None
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=50)] | None = None
    init_containers: Annotated[list[Container], Field(max_length=10)] | None = None
    sidecars: Annotated[list[Container], Field(max_length=10)] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "ResourceSpec":
        pairs: list[tuple[str, Any, str, Any]] = [
            ("min_scale", self.min_scale, "max_scale", self.max_scale),
            ("queue_min_scale", self.queue_min_scale, "queue_max_scale", self.queue_max_scale),
            ("cpu", self.cpu, "cpu_limit", self.cpu_limit),
            ("memory_mb", self.memory_mb, "memory_limit_mb", self.memory_limit_mb),
        ]
        for low_name, low, high_name, high in pairs:
            if low is not None and high is not None and low > high:
                raise ValueError(f"{low_name} ({low}) must not exceed {high_name} ({high})")
        return self
