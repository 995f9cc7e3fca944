"""Addresses of a running stack, and the file from which each process of it can be started alone."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from settings import CONNECTIONS_FILE, Settings
from stack.buckets import BucketAccess
from stack.home import Credentials, Home, write_secret
from stack.postgres import database_url


@dataclass(frozen=True)
class Addresses:
    """Where everything of one stack is."""

    api_url: str
    temporal: str
    temporal_ui: str
    database_url: str
    object_store: BucketAccess

    @classmethod
    def of(cls, settings: Settings, credentials: Credentials, postgres_port: int | None) -> "Addresses":
        """From the settings; `postgres_port` is that of the embedded server, if there is one."""
        embedded_store = settings.s3_endpoint_url is None
        secret = settings.s3_secret_access_key
        return cls(
            api_url=f"http://{_reachable(settings.api_host)}:{settings.api_port}",
            temporal=settings.temporal_target,
            temporal_ui=settings.temporal_ui,
            database_url=database_url(credentials, postgres_port)
            if postgres_port is not None
            else settings.require_database_url(),
            object_store=BucketAccess(
                settings.s3_endpoint,
                settings.s3_region,
                credentials.s3_access_key_id if embedded_store else settings.s3_access_key_id,
                credentials.s3_secret_access_key
                if embedded_store
                else (secret.get_secret_value() if secret else None),
            ),
        )

    def public(self) -> dict[str, str]:
        """Without passwords, for the screen and for `slipway status`."""
        database = urlsplit(self.database_url)
        return {
            "api_url": self.api_url,
            "docs_url": f"{self.api_url}/docs",
            "chat_url": f"{self.api_url}/chat",
            "temporal_ui_url": self.temporal_ui,
            "temporal_address": self.temporal,
            "s3_endpoint_url": self.object_store.endpoint_url,
            "database": f"{database.hostname}:{database.port or 5432}{database.path}",
        }


def write_connections(home: Home, settings: Settings, addresses: Addresses) -> None:
    """`connections.env` (mode 0600), which `settings.load_settings` reads below the environment."""
    values = {
        "SLIPWAY_API_HOST": settings.api_host,
        "SLIPWAY_API_PORT": str(settings.api_port),
        "SLIPWAY_PUBLIC_URL": settings.public_url,
        "SLIPWAY_INTERNAL_URL": settings.internal_url,
        "TEMPORAL_ADDRESS": addresses.temporal,
        "SLIPWAY_TEMPORAL_PORT": str(settings.temporal_port),
        "SLIPWAY_TEMPORAL_UI_PORT": str(settings.temporal_ui_port),
        "SLIPWAY_TEMPORAL_UI_URL": addresses.temporal_ui,
        "DATABASE_URL": addresses.database_url,
        "SLIPWAY_S3_ENDPOINT_URL": addresses.object_store.endpoint_url,
        "SLIPWAY_S3_PORT": str(settings.s3_port),
        "SLIPWAY_S3_REGION": addresses.object_store.region,
        "SLIPWAY_S3_ACCESS_KEY_ID": addresses.object_store.access_key_id,
        "SLIPWAY_S3_SECRET_ACCESS_KEY": addresses.object_store.secret_access_key,
        "SLIPWAY_S3_BUCKET": settings.s3_bucket,
        "SLIPWAY_DEMO_BUCKET": settings.demo_bucket,
    }
    lines = [f"{name}={_quoted(value)}" for name, value in values.items() if value is not None]
    write_secret(home.path / CONNECTIONS_FILE, "\n".join(lines) + "\n")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _reachable(host: str) -> str:
    """An address of this machine for a server that listens on `host`."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
