"""Ports: those of the settings must be free; the servers' inner ones are chosen free and remembered."""

import json
import random
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from stack.home import write_atomically

# Below the range from which systems take the ports of outgoing connections.
_FIRST, _LAST = 20_000, 31_999
LOOPBACK = "127.0.0.1"


class PortTakenError(Exception):
    """A port that a setting names is in use by another program."""


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on `port` now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def require_free(ports: Mapping[str, tuple[int, str]]) -> None:
    """Check the ports that settings name: setting -> (port, address).

    Raises:
        PortTakenError: one is in use, or two settings name the same; says which port and which setting.
    """
    settings: dict[int, str] = {}
    for setting, (port, host) in ports.items():
        if port in settings:
            raise PortTakenError(f"{settings[port]} and {setting} both name port {port}: set another one.")
        settings[port] = setting
        if not is_free(port, host):
            raise PortTakenError(f"Port {port} is already in use: set {setting} to a free port.")


class PortBook:
    """The inner ports of one home by name, in a file: a restart finds them again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ports: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}

    def choose(
        self, name: str, companion_offset: int = 0, suits: Callable[[int], bool] = lambda _: True
    ) -> int:
        """The remembered port, or another one if that is taken.

        With an offset, `port + offset` is free too; `suits` may refuse a port for reasons of its own.
        """
        port = self._ports.get(name)
        if port is None or not self._usable(name, port, companion_offset) or not suits(port):
            port = self._find(name, companion_offset, suits)
            self._ports[name] = port
            write_atomically(self._path, json.dumps(self._ports, indent=1), 0o600)
        return port

    def _find(self, name: str, companion_offset: int, suits: Callable[[int], bool]) -> int:
        last = _LAST - companion_offset if companion_offset else _LAST
        for _ in range(1000):
            port = random.randint(_FIRST, last)
            if self._usable(name, port, companion_offset) and suits(port):
                return port
        raise PortTakenError(f"No free port was found between {_FIRST} and {last}.")

    def _usable(self, name: str, port: int, companion_offset: int) -> bool:
        others = {taken for other, taken in self._ports.items() if other != name}
        wanted = {port, port + companion_offset}
        return not wanted & others and all(is_free(candidate) for candidate in wanted)
