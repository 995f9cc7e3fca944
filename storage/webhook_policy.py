"""Where webhooks may go: checked when a run is created, and again by every delivery."""

import ipaddress
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from storage.s3_destination import is_public

_DEFAULT_PORTS = {"http": 80, "https": 443}


def webhook_problem(url: str, policy: Mapping[str, Any], allow_private: bool) -> str | None:
    """Why a webhook's address is refused; None if it is fine. `policy`: `webhooks.url` of langgraph.json.

    Names are not resolved here: `GuardedResolver` does that, at the time of each delivery.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError as error:
        return f"it is not a URL: {error}"
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        return "it must be an absolute http:// or https:// address"
    if any(character.isspace() or ord(character) < 32 for character in url):
        return "it holds white space or control characters"
    if parts.username or parts.password:
        return "it must not hold credentials"
    if len(url) > policy.get("max_url_length", 4_096):
        return f"it is longer than {policy.get('max_url_length', 4_096)} characters"
    if policy.get("require_https") and parts.scheme != "https":
        return "this deployment allows https only"
    if policy.get("allowed_ports") and port not in policy["allowed_ports"]:
        return f"this deployment does not allow port {port}"
    if policy.get("allowed_domains") and not _is_among(parts.hostname, policy["allowed_domains"]):
        return f"this deployment does not allow the domain {parts.hostname}"
    return _address_problem(parts.hostname, policy, allow_private)


def _is_among(host: str, domains: list[str]) -> bool:
    """`example.com` is itself; `*.example.com` is all below it."""
    host = host.lower().rstrip(".")
    wanted = [domain.lower() for domain in domains]
    return host in wanted or any(
        domain.startswith("*.") and host.endswith(domain[1:]) and host != domain[2:] for domain in wanted
    )


def _address_problem(host: str, policy: Mapping[str, Any], allow_private: bool) -> str | None:
    if host.lower().rstrip(".") == "localhost" or host.lower().rstrip(".").endswith(".localhost"):
        host = "127.0.0.1"
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return None if _is_allowed(host, policy, allow_private) else _blocked(host)


def _is_allowed(address: str, policy: Mapping[str, Any], allow_private: bool) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    if parsed.is_loopback and policy.get("disable_loopback"):
        return False
    return allow_private or is_public(address)


def _blocked(host: str) -> str:
    return f"webhook host blocked: {host} is a loopback or private address"


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses those that lead where webhooks may not go.

    Raises:
        PermissionError: one of the name's addresses is not allowed.
    """

    def __init__(self, policy: Mapping[str, Any], allow_private: bool) -> None:
        self._policy = policy
        self._allow_private = allow_private
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._resolver.resolve(host, port, family)
        if not all(_is_allowed(result["host"], self._policy, self._allow_private) for result in results):
            raise PermissionError(_blocked(host))
        return results

    async def close(self) -> None:
        await self._resolver.close()
