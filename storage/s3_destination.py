"""A destination's bucket: where its objects lie, and a client that may reach it."""

import base64
import hashlib
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

_session: AioSession | None = None


@dataclass(frozen=True)
class S3Destination:
    """Configuration and credentials of a bucket (bulk export contract §1.2)."""

    config: dict[str, Any]
    credentials: dict[str, str] = field(repr=False)
    allow_private_endpoints: bool = True

    @property
    def bucket(self) -> str:
        """The bucket as requests name it.

        Without `include_bucket_in_prefix` the endpoint's host carries the bucket already; the first folder of the
        prefix then stands where path-style requests have the bucket, so that it is not named twice.
        """
        return str(self.config["bucket_name"]) if self._names_bucket else self._prefix.partition("/")[0]

    @property
    def root(self) -> str:
        """Prefix of every object's key, without slashes at its ends; may be empty."""
        return self._prefix if self._names_bucket else self._prefix.partition("/")[2]

    def key(self, path: str) -> str:
        """Key of the object at `path` under the destination's prefix."""
        return f"{self.root}/{path}" if self.root else path

    def display(self, key: str) -> str:
        """`bucket/key`, as exported files are listed."""
        return f"{self.bucket}/{key}"

    @property
    def put_options(self) -> dict[str, Any]:
        """What every upload sends along, such as server-side encryption."""
        return dict(self.config.get("s3_additional_kwargs") or {})

    @asynccontextmanager
    async def client(self, *, attempts: int = 4, timeout_seconds: float = 60.0) -> AsyncIterator[Any]:
        """A botocore client that retries transient answers `attempts` times in all."""
        global _session
        _session = _session or get_session()
        options = AioConfig(
            signature_version="s3v4",
            connect_timeout=min(timeout_seconds, 10.0),
            read_timeout=timeout_seconds,
            retries={"total_max_attempts": attempts, "mode": "standard"},
            max_pool_connections=16,
            s3=self._s3_options(),
            # Providers other than AWS refuse the newer checksums; every upload carries its Content-MD5 instead.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            connector_args=None if self.allow_private_endpoints else {"resolver": PublicResolver()},
        )
        async with _session.create_client(
            "s3",
            endpoint_url=self.config.get("endpoint_url") or None,
            region_name=self.config.get("region") or "us-east-1",
            aws_access_key_id=self.credentials.get("access_key_id"),
            aws_secret_access_key=self.credentials.get("secret_access_key"),
            aws_session_token=self.credentials.get("session_token"),
            config=options,
        ) as client:
            client.meta.events.register("before-sign.s3", _add_checksum)
            yield client

    @property
    def _prefix(self) -> str:
        return str(self.config.get("prefix") or "").strip("/")

    @property
    def _names_bucket(self) -> bool:
        return bool(self.config.get("include_bucket_in_prefix", True))

    def _s3_options(self) -> dict[str, Any]:
        given: dict[str, Any] = {
            # The signature covers Content-MD5, which covers the body: signing the body too would hash it twice.
            "payload_signing_enabled": False,
            **{
                name: value
                for name, value in (self.config.get("config_kwargs_s3") or {}).items()
                if value is not None
            },
        }
        if not self._names_bucket:
            return {**given, "addressing_style": "path"}
        if self.config.get("endpoint_url") and "addressing_style" not in given:
            return {**given, "addressing_style": "path"}
        return given


def content_md5(body: bytes) -> str:
    """Value of the header Content-MD5, which every provider checks, and Object Lock buckets demand."""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def _add_checksum(request: Any, **_: Any) -> None:
    """Of small requests; uploads come with theirs."""
    if request.body and "Content-MD5" not in request.headers:
        request.headers["Content-MD5"] = content_md5(request.body)


class PublicResolver(AbstractResolver):
    """Resolves names, and refuses those that lead into a private network: checked at each connection."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._resolver.resolve(host, port, family)
        if not all(is_public(result["host"]) for result in results):
            raise PermissionError(f"{host} is an address of a private network.")
        return results

    async def close(self) -> None:
        await self._resolver.close()


def is_public(address: str) -> bool:
    """Whether an IP address may be reached by destinations when private endpoints are not allowed."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return parsed.is_global and not parsed.is_multicast


async def endpoint_problem(endpoint_url: str, allow_private: bool) -> str | None:
    """Why an endpoint is refused before anything is sent to it; None if it is fine."""
    try:
        parts = urlsplit(endpoint_url)
        port = parts.port
    except ValueError as error:
        return f"Invalid endpoint: endpoint_url is not a URL: {error}."
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "Invalid endpoint: endpoint_url must be an http:// or https:// address."
    if parts.username or parts.password or parts.query or parts.fragment:
        return "Invalid endpoint: endpoint_url must not hold credentials, a query or a fragment."
    if allow_private:
        return None
    try:
        await PublicResolver().resolve(parts.hostname, port or 443)
    except PermissionError:
        return (
            "Invalid endpoint: endpoint_url leads into this service's own network, which is not allowed here"
            " (setting SLIPWAY_ALLOW_PRIVATE_ENDPOINTS)."
        )
    except OSError:
        return f"Invalid endpoint: the host {parts.hostname} cannot be found."
    return None
