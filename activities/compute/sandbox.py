"""What the processes of a revision and of its build may touch on the listener's host (docs/architecture/sandbox.md)."""

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import structlog

from activities.compute import landlock
from settings import Settings

log = structlog.get_logger()

# Names the policy of a child to its launcher, which takes it out of the environment.
POLICY_VARIABLE = "SLIPWAY_SANDBOX_POLICY"

# Programs, libraries and what they ask the system about themselves. Nothing of users, of services, or of /tmp.
_SYSTEM = [
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/snap", "/proc"),
    *(
        "/sys/devices",
        "/sys/bus",
        "/sys/class",
        "/sys/fs/cgroup",
        "/sys/kernel/mm",
        "/var/lib/ca-certificates",
    ),
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/opengl-driver"),
    "/var/cache/fontconfig",
]
_DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")]
_GRAPHICS = ("nvidia*", "dri", "kfd")
_SHARED_MEMORY = "/dev/shm"
# Files that variables name: without them a worker reaches neither Temporal nor anything behind TLS.
_NAMED_BY = [
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
    *("NIX_SSL_CERT_FILE", "TEMPORAL_CONFIG_FILE", "TEMPORAL_TLS_SERVER_CA_CERT_PATH"),
    *("TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH"),
]


class SandboxMissingError(Exception):
    """This host cannot confine processes as far as the settings demand."""


class ProcessSandbox:
    """Confinement of child processes by Landlock; `policy` is None where it is off or the kernel has none."""

    def __init__(self, read: Iterable[str] = (), write: Iterable[str] = (), *, active: bool) -> None:
        self._read = list(read)
        self._write = list(write)
        self.active = active

    @classmethod
    def open(cls, settings: Settings) -> "ProcessSandbox":
        """As `SLIPWAY_PROCESS_SANDBOX` says.

        Raises:
            SandboxMissingError: it says `require`, and this kernel lacks what that takes.
        """
        if settings.process_sandbox == "off":
            log.warning("process_sandbox_off", meaning="projects can read what the listener's user can")
            return cls(active=False)
        version = landlock.abi()
        if version < landlock.FULL_ABI:
            missing = f"Landlock ABI {landlock.FULL_ABI} (Linux 6.12) is needed, this kernel offers {version}"
            if settings.process_sandbox == "require":
                raise SandboxMissingError(f"SLIPWAY_PROCESS_SANDBOX=require: {missing}.")
            log.warning("process_sandbox_incomplete", reason=missing, files=version > 0, signals=False)
        if version == 0:
            return cls(active=False)
        return cls(_readable(settings), [_SHARED_MEMORY, *_paths(settings.sandbox_write_paths)], active=True)

    def policy(self, *, read: Iterable[Path] = (), write: Iterable[Path] = ()) -> str | None:
        """The rules of one child: what all may touch, with `read` (also executed) and `write` of its own.

        Whoever runs under the policy must not be able to replace a path of `write` itself.
        """
        if not self.active:
            return None
        graphics = [str(path) for pattern in _GRAPHICS for path in Path("/dev").glob(pattern)]
        return json.dumps(
            {
                "read": [*self._read, *map(str, read)],
                "write": [*self._write, *map(str, write)],
                "use": [*_DEVICES, *graphics],
            }
        )


def _readable(settings: Settings) -> list[str]:
    private = settings.home.resolve()
    wanted = [*_SYSTEM, *interpreter_folders(Path(sys.base_prefix)), *_paths(settings.sandbox_read_paths)]
    wanted += [value for name in _NAMED_BY if (value := os.environ.get(name))]
    # Modes do not stop root, so what only root may read is left out for it. For others the folder as a whole: then
    # files that are replaced while a worker runs, such as resolv.conf, stay readable.
    wanted += _public(Path("/etc")) if os.geteuid() == 0 else ["/etc"]
    return [str(path) for item in wanted for path in _without(Path(item), private)]


def interpreter_folders(prefix: Path) -> list[str]:
    """What to read for an interpreter installed at `prefix`, which must be a folder of its own."""
    real = prefix.resolve()
    return [] if real in (Path("/"), Path.home()) else [str(real)]


def _paths(setting: str) -> list[str]:
    return [item for item in setting.split(os.pathsep) if item]


def _without(path: Path, private: Path) -> Iterator[Path]:
    """`path`, or if `private` lies below it, everything beside the way there."""
    real = path.resolve()
    if not private.is_relative_to(real):
        yield path
    elif real != private:
        for child in real.iterdir():
            yield from _without(child, private)


def _public(folder: Path) -> list[str]:
    """The fewest paths below `folder` that hold all that every user may read, and nothing else."""
    found: list[str] = []
    everything = True
    for entry in os.scandir(folder):
        try:
            mode = entry.stat().st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode) and mode & 0o005 == 0o005 and not entry.is_symlink():
            below = _public(Path(entry.path))
            found += below
            everything = everything and below == [entry.path]
        elif stat.S_ISREG(mode) and mode & 0o004:
            found.append(entry.path)
        elif not entry.is_symlink():
            everything = False
    return [str(folder)] if everything else found
