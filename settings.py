"""Every setting of Slipway, in one place.

Read from the environment. `slipway up` writes the addresses and passwords of the servers it embeds to
`$SLIPWAY_HOME/connections.env` (mode 0600), which is read below the environment, so that each process can
also be started alone. The table in docs/OPERATIONS.md lists every field of this module; a test compares them.
"""

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

CONNECTIONS_FILE = "connections.env"


class Settings(BaseSettings):
    """Settings of every process. Sizes and durations carry their unit in the name."""

    model_config = SettingsConfigDict(env_prefix="SLIPWAY_", extra="ignore", populate_by_name=True)

    home: Path = Field(Path(".slipway"), description="Folder of all state of an embedded installation.")

    api_host: str = Field(
        "127.0.0.1", description="Address the API listens on; loopback until told otherwise."
    )
    api_port: int = Field(8000, ge=1, le=65_535, description="Port of the API.")
    public_url: str | None = Field(
        None, description="Address under which clients reach the API; default http://<api_host>:<api_port>."
    )
    internal_url: str | None = Field(
        None,
        description="Address under which workers of revisions reach the API, for traces; default the public one.",
    )
    temporal_port: int = Field(7233, ge=1, le=65_535, description="Port of the embedded Temporal server.")
    temporal_ui_port: int = Field(8233, ge=1, le=65_535, description="Port of the embedded Temporal UI.")
    temporal_ui_url: str | None = Field(
        None, description="Address of the Temporal UI for links; default the embedded one."
    )
    s3_port: int = Field(8333, ge=1, le=65_535, description="Port of the embedded S3 server.")

    temporal_address: str | None = Field(
        None,
        validation_alias=AliasChoices("TEMPORAL_ADDRESS", "temporal_address"),
        description="host:port of an external Temporal server; TLS, API key and namespace as temporalio.envconfig "
        "reads them. Unset: the embedded server.",
    )
    database_url: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("DATABASE_URL", "database_url"),
        description="PostgreSQL >= 15 as a postgresql:// URL whose role may create roles. Unset: embedded.",
    )
    s3_endpoint_url: str | None = Field(
        None, description="Endpoint of an external object store. Unset: the embedded server."
    )
    s3_region: str = Field("us-east-1", description="Region of the object store.")
    s3_access_key_id: str | None = Field(
        None, description="Key id of the platform's own object store access."
    )
    s3_secret_access_key: SecretStr | None = Field(
        None, description="Secret of the platform's object store access."
    )
    s3_bucket: str = Field(
        "slipway", description="Bucket for the platform's own objects (uploads, attachments)."
    )
    demo_bucket: str = Field("demo", description="Bucket made on the embedded S3 server for the demo export.")

    secret_keys: SecretStr | None = Field(
        None,
        description="Fernet keys, comma separated, newest first: the first encrypts, all decrypt. "
        "Unset: generated into $SLIPWAY_HOME/secret-keys (mode 0600).",
    )

    database_pool_size: int = Field(20, ge=2, description="Connections per process to PostgreSQL at most.")
    max_request_body_bytes: int = Field(
        25 * 1024 * 1024, ge=1024, description="Largest request body; beyond it the answer is 413."
    )
    max_trace_body_bytes: int = Field(
        100 * 1024 * 1024,
        ge=1024,
        description="Largest body of a trace ingestion request once it is decompressed; beyond it the answer is 413.",
    )
    ingest_concurrency: int = Field(
        4,
        ge=1,
        description="Trace ingestion requests that one API process works on at once; the others wait.",
    )
    ingest_held_bytes: int = Field(
        256 * 1024 * 1024,
        ge=1024,
        description="Bytes of trace bodies, as they came and decompressed, that one API process holds at once. What is"
        " beyond is answered 503 with Retry-After; a body that is alone is always taken.",
    )
    ingest_bytes_per_second: int | None = Field(
        None,
        ge=1,
        description="Bytes of trace bodies, as they came and decompressed, that one workspace may send per second to"
        " one API process, with ten seconds' worth at once after a pause. What is beyond is answered 429 with"
        " Retry-After. Unset: no limit.",
    )
    max_store_value_bytes: int = Field(
        1024 * 1024,
        ge=1024,
        description="Largest value of an item of the store; beyond it the answer is 422.",
    )
    key_cache_seconds: float = Field(
        5.0,
        ge=0,
        description="How long an API process trusts a looked-up key; a revoked key works at most so long.",
    )
    thread_idle_seconds: float = Field(
        60.0, gt=0, description="How long a thread's workflow stays for the next run before it ends."
    )
    lanes_per_deployment: int = Field(
        4, ge=1, le=64, description="Workflows that carry a deployment's stateless runs."
    )
    run_timeout_seconds: float = Field(
        86_400.0,
        gt=0,
        description="Longest a run may take over all its attempts; then its status is `timeout`.",
    )
    run_max_attempts: int = Field(
        3,
        ge=1,
        description="How often a run is started again after its worker died, the first start included.",
    )
    run_max_events: int = Field(
        1_000_000, ge=1, description="Events that one attempt of a run may emit; beyond them the run fails."
    )
    run_max_event_bytes: int = Field(
        2 * 1024**3, ge=1024, description="Bytes of events that one attempt of a run may emit."
    )
    upload_limit_bytes: int = Field(
        200 * 1024 * 1024, ge=1024, description="Largest tarball of a project; beyond it the answer is 413."
    )
    upload_url_seconds: float = Field(3_600.0, gt=0, description="How long an upload URL may be used.")
    project_limit_bytes: int = Field(
        1024 * 1024 * 1024, ge=1024, description="Largest size of a project's files once extracted."
    )
    project_limit_files: int = Field(50_000, ge=1, description="Most files a project may have.")
    build_timeout_seconds: float = Field(1_800.0, gt=0, description="Longest a build may take.")
    probe_timeout_seconds: float = Field(
        120.0, gt=0, description="Longest a new revision may take to import its graphs and describe them."
    )
    drain_seconds: float = Field(
        180.0, ge=0, description="How long runs go on on a replaced revision; then the new one resumes them."
    )
    listener_timeout_seconds: float = Field(
        3_600.0, gt=0, description="How long a rollout waits for its listener to come back."
    )
    worker_slots: int = Field(
        10, ge=1, description="Runs that one worker process of a revision executes at once."
    )
    runtime_source: Path | None = Field(
        None,
        description="slipway-runtime for revisions: its source folder or its wheel. Unset: the folder `runtime` beside"
        " the application.",
    )
    autoscale_interval_seconds: float = Field(
        10.0,
        ge=1,
        description="How often the number of worker processes is compared with the runs that wait.",
    )
    scale_down_seconds: float = Field(
        1_800.0, ge=0, description="How long there must be too many worker processes before any is stopped."
    )
    kept_builds: int = Field(
        10,
        ge=1,
        description="Newest builds of a deployment that stay on its listener's host, for rollbacks without a build.",
    )
    build_cache_bytes: int = Field(
        20 * 1024 * 1024 * 1024,
        ge=0,
        description="Size beyond which a listener removes environments that no kept build uses, and package caches of "
        "workspaces.",
    )
    prune_interval_seconds: float = Field(
        3_600.0, ge=10, description="How often listeners remove builds and environments that are not kept."
    )
    push_interval_seconds: float = Field(
        60.0,
        ge=5,
        description="How often the branches of deployments with `build_on_push` are looked at.",
    )
    listener_id: str = Field(
        "00000000-0000-4000-8000-000000000001",
        description="Which listener `slipway worker listener` is; default the built-in one, which runs processes.",
    )
    export_window: int = Field(8, ge=1, le=100, description="Export runs of one export in flight at once.")
    export_worker_slots: int = Field(
        2, ge=1, description="Export runs that one platform worker writes at once; each needs about 100 MB."
    )
    export_timeout_seconds: float = Field(
        72 * 3600.0, gt=0, description="Longest an export may take; then its status is TIMEDOUT."
    )
    export_file_target_bytes: int = Field(
        256 * 1024 * 1024, ge=1024, description="Size at which an exported file ends and the next begins."
    )
    export_creations_per_hour: int | None = Field(
        None, ge=0, description="Exports a workspace may create in any 60 minutes, spawned ones included."
    )
    export_active_schedules: int | None = Field(
        None, ge=0, description="Scheduled exports a workspace may have at once."
    )
    export_max_experiments: int | None = Field(
        None, ge=0, description="Experiments that one export of all experiments may hold."
    )
    export_ambient_credentials: bool = Field(
        False,
        description="Whether destinations without credentials use the service's own AWS identity.",
    )
    sweep_interval_seconds: float = Field(
        60.0, ge=1, description="How often expired threads, events and the like are deleted."
    )
    event_retention_hours: float = Field(
        168.0, gt=0, description="How long the events of runs can be replayed before the sweep deletes them."
    )
    trace_shortlived_days: float = Field(
        14.0, gt=0, description="How long runs of the tier `shortlived` are kept, from their start."
    )
    trace_longlived_days: float = Field(
        400.0, gt=0, description="How long runs of the tier `longlived` are kept, from their start."
    )
    trace_query_seconds: float = Field(
        30.0, gt=0, le=3_600, description="How long one query over traces may read before it is refused."
    )
    trace_retention_interval_seconds: float = Field(
        300.0, ge=1, description="How often expired traces, and those of deleted projects, are deleted."
    )
    kubeconfig: Path | None = Field(
        None,
        description="Access of a Kubernetes listener to its cluster. Unset: that of the pod it runs in.",
    )
    allow_private_endpoints: bool = Field(
        True,
        description="Whether export destinations and webhooks may reach private and loopback addresses. "
        "Must be on for the embedded S3 server; switch it off where tenants are not trusted.",
    )
    trust_project_builds: bool = Field(
        True,
        description="Whether install and build commands of uploaded projects may run on the listener's host.",
    )
    process_sandbox: Literal["auto", "require", "off"] = Field(
        "auto",
        description="Whether processes of projects are confined to their own files by Landlock: `auto` where the kernel"
        " offers it, `require` refuses to run a listener otherwise, `off` trusts every project.",
    )
    sandbox_read_paths: str = Field(
        "",
        description="Further folders of the listener's host that confined projects may read and execute, separated by "
        "colons; for example of models or of other tools.",
    )
    sandbox_write_paths: str = Field(
        "",
        description="Further folders of the listener's host that every confined project may change, separated by"
        " colons.",
    )
    chat_deployment: str = Field(
        "chat", description="Deployment that answers under /api/threads and on /chat."
    )
    chat_deploy: bool = Field(
        True,
        description="Whether `slipway up` deploys the example agent as the chat's deployment when there is none.",
    )
    chat_without_key: bool = Field(
        False,
        description="Whether the chat's routes serve programs and pages of this machine that send no key, as the "
        "first workspace. Only for a machine that one person uses, with nothing that forwards requests to it.",
    )
    local_source_root: Path | None = Field(
        None,
        description="Folder of the listener's host below which projects may be deployed by a file:// `repo_url`. Unset:"
        " none.",
    )
    log_level: str = Field("INFO", description="DEBUG, INFO, WARNING or ERROR.")
    log_format: str = Field("console", description="console or json.")

    @property
    def runtime_path(self) -> Path | None:
        """Where slipway-runtime is installed from; None if this installation has none."""
        beside = Path(__file__).resolve().parent / "runtime"
        return self.runtime_source or (beside if (beside / "pyproject.toml").is_file() else None)

    @property
    def api_url(self) -> str:
        """Address under which clients reach the API, without a trailing slash."""
        return (self.public_url or f"http://{self.api_host}:{self.api_port}").rstrip("/")

    @property
    def internal_api_url(self) -> str:
        """Address under which workers of revisions reach the API, without a trailing slash."""
        return (self.internal_url or self.api_url).rstrip("/")

    @property
    def temporal_target(self) -> str:
        """host:port of the Temporal frontend that this process uses."""
        return self.temporal_address or f"127.0.0.1:{self.temporal_port}"

    @property
    def temporal_ui(self) -> str:
        """Base address of the Temporal UI, without a trailing slash."""
        return (self.temporal_ui_url or f"http://127.0.0.1:{self.temporal_ui_port}").rstrip("/")

    @property
    def s3_endpoint(self) -> str:
        """Endpoint of the object store that the platform itself uses."""
        return self.s3_endpoint_url or f"http://127.0.0.1:{self.s3_port}"

    def require_database_url(self) -> str:
        """The PostgreSQL URL.

        Raises:
            RuntimeError: neither DATABASE_URL nor a running `slipway up` in this home provides one.
        """
        if self.database_url is None:
            raise RuntimeError(
                f"No database: set DATABASE_URL, or start `slipway up` with SLIPWAY_HOME={self.home} first."
            )
        return self.database_url.get_secret_value()


@lru_cache(maxsize=1)
def load_settings() -> Settings:
    """Settings of this process: the environment, then what `slipway up` wrote into the home folder."""
    home = Settings().home
    return Settings(_env_file=home / CONNECTIONS_FILE)
