"""The folder that holds all state of an embedded installation, and what may be read in it by whom."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

API_KEY_FILE = "api-key"
_CREDENTIALS_FILE = "credentials.json"
_STATE_FILE = "state.json"
_LOCK_FILE = "lock"
_LOCK_SECONDS = 1.0


class AlreadyRunningError(Exception):
    """Another `slipway up` holds this home."""


@dataclass(frozen=True)
class Home:
    """Paths below `$SLIPWAY_HOME`. Secrets are files of mode 0600, never readable by others for a moment."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> "Home":
        """The home at `path`, made if it is missing: others may pass through it, not list it.

        Passing through is what PostgreSQL's own system user needs under root; an existing folder keeps its mode.
        """
        path = path.absolute()
        if not path.exists():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o711)
        home = cls(path)
        home.logs.mkdir(mode=0o700, exist_ok=True)
        return home

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def temporal_database(self) -> Path:
        return self.path / "temporal" / "temporal.db"

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def objects(self) -> Path:
        return self.path / "objects"

    @property
    def api_key(self) -> Path:
        return self.path / API_KEY_FILE

    @property
    def state(self) -> Path:
        return self.path / _STATE_FILE

    def read_state(self) -> dict[str, Any] | None:
        """What the supervisor last wrote about its processes; None before the first start."""
        try:
            state: dict[str, Any] = json.loads(self.state.read_text())
        except FileNotFoundError:
            return None
        return state

    def credentials(self) -> "Credentials":
        """Passwords of the embedded servers, generated at the first call and kept."""
        path = self.path / _CREDENTIALS_FILE
        if not path.exists():
            write_secret(path, json.dumps(Credentials.generate().__dict__))
        return Credentials(**json.loads(path.read_text()))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold this home for one supervisor.

        Raises:
            AlreadyRunningError: another process holds it.
        """
        with (self.path / _LOCK_FILE).open("a+") as file:
            if not _locked_soon(file):
                file.seek(0)
                pid = file.read().strip() or "unknown"
                raise AlreadyRunningError(
                    f"`slipway up` already runs on {self.path} (process {pid}). Stop it first, or set SLIPWAY_HOME"
                    " and the ports to start a second stack."
                )
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def is_locked(self) -> bool:
        """Whether a supervisor runs on this home."""
        try:
            with (self.path / _LOCK_FILE).open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


def _locked_soon(file: IO[str]) -> bool:
    """Whether the lock was had; `is_locked` in another process may hold it for a moment."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        else:
            return True


@dataclass(frozen=True)
class Credentials:
    """Passwords of the embedded servers."""

    postgres_superuser_password: str
    postgres_password: str
    s3_access_key_id: str
    s3_secret_access_key: str

    @classmethod
    def generate(cls) -> "Credentials":
        return cls(
            postgres_superuser_password=secrets.token_urlsafe(32),
            postgres_password=secrets.token_hex(24),
            s3_access_key_id="slipway" + secrets.token_hex(6),
            s3_secret_access_key=secrets.token_hex(24),
        )


def write_secret(path: Path, text: str) -> None:
    """Replace a file by `text`, mode 0600 from its first moment on, whole or not at all."""
    write_atomically(path, text, 0o600)


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file whole or not at all, also if the machine dies."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
