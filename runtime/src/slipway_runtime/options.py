"""Sections of langgraph.json beyond its graphs (agent server contract §7): what is supported, and what is refused.

The one list of both. A section that holds an unknown key, or one that is not supported, fails the deployment with a
message that names the key; nothing is ignored.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_MAX_DIMENSIONS = 16_000
_MAX_MINUTES = 60 * 24 * 3650
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
_MAX_PREFIX = 200
# First parts of the server's own paths: below a prefix of such a name they could not be told apart.
_OWN_PATHS = frozenset(
    {"a2a", "assistants", "docs", "info", "internal", "mcp", "metrics", "ok", "openapi.json", "runs"}
    | {"store", "threads", "webhooks"}
)


class OptionError(Exception):
    """A key is unknown, not supported, or has a wrong value; the message names it."""


@dataclass(frozen=True)
class ProjectOptions:
    """Checked sections, as written in langgraph.json; empty where the file has none."""

    store: dict[str, Any] = field(default_factory=dict)
    checkpointer: dict[str, Any] = field(default_factory=dict)
    auth: dict[str, Any] = field(default_factory=dict)
    http: dict[str, Any] = field(default_factory=dict)
    webhooks: dict[str, Any] = field(default_factory=dict)

    def for_platform(self) -> dict[str, Any]:
        """What the platform acts on, for the revision's description. Holds no secret: templates stay templates."""
        store_ttl = self.store.get("ttl") or {}
        return {
            "store": {"indexed": bool(self.store.get("index")), "ttl": store_ttl},
            "checkpointer": {"ttl": self.checkpointer.get("ttl") or {}},
            "auth": {
                "enabled": bool(self.auth.get("path")),
                "cache": self.auth.get("cache"),
                "disable_studio_auth": bool(self.auth.get("disable_studio_auth")),
            },
            "http": self.http,
            "webhooks": self.webhooks,
        }


def read_options(raw: Mapping[str, Any]) -> ProjectOptions:
    """The sections of a langgraph.json.

    Raises:
        OptionError: a key that is unknown, not supported, or wrong.
    """
    for key, reason in _REFUSED_SECTIONS.items():
        if raw.get(key):
            raise OptionError(f"`{key}` is not supported: {reason}")
    sections: dict[str, dict[str, Any]] = {}
    for name, shape in _SECTIONS.items():
        section = raw.get(name)
        if section is not None:
            _check(name, section, shape)
            sections[name] = dict(section)
    return ProjectOptions(**sections)


Check = Callable[[str, Any], None]


@dataclass(frozen=True)
class _Refused:
    """A key of the contract that Slipway does not have."""

    why: str

    def __call__(self, path: str, value: Any) -> None:
        if value:
            raise OptionError(f"`{path}` is not supported: {self.why}")


def _check(path: str, value: Any, shape: "Check | Mapping[str, Any]") -> None:
    if not isinstance(shape, Mapping):
        shape(path, value)
        return
    if not isinstance(value, dict):
        raise OptionError(f"`{path}` must be an object.")
    for key, item in value.items():
        if key not in shape:
            known = ", ".join(sorted(key for key, check in shape.items() if not isinstance(check, _Refused)))
            raise OptionError(f"`{path}.{key}` is not supported; `{path}` may hold {known}.")
        if item is not None:
            _check(f"{path}.{key}", item, shape[key])


def _text(path: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise OptionError(f"`{path}` must be a text.")


def _flag(path: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise OptionError(f"`{path}` must be true or false.")


def _texts(path: str, value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise OptionError(f"`{path}` must be a list of texts.")


def _always_on(path: str, value: Any) -> None:
    if value is not True:
        raise OptionError(f"`{path}` must be true: custom routes are only for callers that are known.")


def _auth_first(path: str, value: Any) -> None:
    if value != "auth_first":
        raise OptionError(
            f'`{path}` must be "auth_first": a custom app and its middleware see only requests whose caller is known.'
        )


def _mount_prefix(path: str, value: Any) -> None:
    if not isinstance(value, str) or len(value) > _MAX_PREFIX or not _PREFIX.fullmatch(value):
        raise OptionError(
            f'`{path}` must be a path such as "/agents/support": at most {_MAX_PREFIX} characters out of letters,'
            ' digits and "._~-", with a "/" before each part and none at the end.'
        )
    first = value.split("/")[1]
    if first in _OWN_PATHS:
        raise OptionError(f"`{path}` must not begin with /{first}: that is a path of the server itself.")


def _target(path: str, value: Any) -> None:
    if not isinstance(value, str) or ":" not in value:
        raise OptionError(f'`{path}` must be "path:object", for example "./file.py:name".')


def _number(least: float, most: float, *, whole: bool = False) -> Check:
    def check(path: str, value: Any) -> None:
        right = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not right or not least <= value <= most:
            raise OptionError(
                f"`{path}` must be a {'whole ' if whole else ''}number from {least:g} to {most:g}."
            )

    return check


def _one_of(*allowed: str) -> Check:
    def check(path: str, value: Any) -> None:
        if value not in allowed:
            raise OptionError(f"`{path}` must be one of {', '.join(allowed)}.")

    return check


def _ports(path: str, value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(item, int) and 0 < item < 65_536 for item in value):
        raise OptionError(f"`{path}` must be a list of port numbers.")


def _headers(path: str, value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise OptionError(f"`{path}` must map header names to texts.")


def _index(path: str, value: Any) -> None:
    _check(path, value, {"embed": _text, "dims": _number(1, _MAX_DIMENSIONS, whole=True), "fields": _texts})
    for key in ("embed", "dims"):
        if value.get(key) is None:
            raise OptionError(f"`{path}.{key}` is missing.")


_MINUTES = _number(0.01, _MAX_MINUTES)
_GLOBS = {"includes": _texts, "excludes": _texts}
_SECTIONS: dict[str, Mapping[str, Any]] = {
    "store": {
        "index": _index,
        "ttl": {"refresh_on_read": _flag, "default_ttl": _MINUTES, "sweep_interval_minutes": _MINUTES},
        "path": _Refused("the store is Slipway's own; remove it."),
    },
    "checkpointer": {
        "ttl": {
            "strategy": _one_of("delete", "keep_latest"),
            "default_ttl": _MINUTES,
            "sweep_interval_minutes": _MINUTES,
            "sweep_limit": _number(1, 1_000_000, whole=True),
        },
        "path": _Refused("checkpoints are kept in Slipway's database; remove it."),
        "serde": _Refused("Slipway chooses how checkpoints are written; remove it."),
    },
    "auth": {
        "path": _target,
        "disable_studio_auth": _flag,
        "cache": {
            "cache_keys": _texts,
            "ttl_seconds": _number(0, 86_400),
            "max_size": _number(1, 100_000, whole=True),
        },
        "openapi": _Refused("security schemes cannot be added to the API's document; remove it."),
    },
    "http": {
        **{
            f"disable_{group}": _flag
            for group in (
                "assistants",
                "threads",
                "runs",
                "crons",
                "store",
                "mcp",
                "a2a",
                "meta",
                "webhooks",
                "ui",
            )
        },
        "cors": {
            "allow_origins": _texts,
            "allow_methods": _texts,
            "allow_headers": _texts,
            "allow_credentials": _flag,
            "allow_origin_regex": _text,
            "expose_headers": _texts,
            "max_age": _number(0, 86_400 * 365, whole=True),
        },
        "configurable_headers": _GLOBS,
        "logging_headers": _GLOBS,
        "mount_prefix": _mount_prefix,
        "app": _target,
        "enable_custom_route_auth": _always_on,
        "middleware_order": _auth_first,
    },
    "webhooks": {
        "env_prefix": _text,
        "headers": _headers,
        "url": {
            "require_https": _flag,
            "allowed_domains": _texts,
            "allowed_ports": _ports,
            "max_url_length": _number(1, 65_536, whole=True),
            "disable_loopback": _flag,
        },
    },
}
_REFUSED_SECTIONS = {
    "priority": "runs of a deployment are executed in order of receipt; remove it.",
    "encryption": "custom encryption is not available; remove it.",
}
