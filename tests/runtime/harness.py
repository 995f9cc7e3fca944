"""A deployment of one test project: its rows, its database role, its worker processes."""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import orjson
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from storage.database import Database
from storage.ids import new_id
from storage.worker_roles import ensure_role, role_name
from workflows.messages import names
from workflows.messages.thread import SUBMIT_SIGNAL, THREAD_WORKFLOW, Run, ThreadInput

PROJECTS = Path(__file__).parent / "projects"
_BUILT_IN_LISTENER = "00000000-0000-4000-8000-000000000001"
T = TypeVar("T")


async def eventually(check: Callable[[], Awaitable[T | None]], seconds: float = 30.0) -> T:
    """What `check` returns once it is not None or False."""
    async with asyncio.timeout(seconds):
        while True:
            found = await check()
            if found is not None and found is not False:
                return found
            await asyncio.sleep(0.05)


class Deployed:
    """One revision of a project, served by as many worker processes as the test starts."""

    def __init__(self, database: Database, client: Client, project: Path = PROJECTS / "steps") -> None:
        self.database = database
        self.client = client
        self.project = project
        self.tenant_id, self.deployment_id, self.revision_id = new_id(), uuid4(), uuid4()
        self.environment: dict[str, str] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.role = role_name(self.deployment_id)
        self.password = secrets.token_hex(8)

    async def create(self) -> None:
        async with self.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO tenants (id, name) VALUES (%s, 'runtime')", (self.tenant_id,)
            )
            await connection.execute(
                "INSERT INTO deployments (id, tenant_id, name, source, status, listener_id)"
                " VALUES (%s, %s, %s, 'internal_source', 'READY', %s)",
                (self.deployment_id, self.tenant_id, f"d-{self.deployment_id.hex[:8]}", _BUILT_IN_LISTENER),
            )
            await ensure_role(connection, self.deployment_id, self.password)

    @property
    def worker_database_url(self) -> str:
        parts = urlsplit(self.database.url)
        host = parts.netloc.rsplit("@", 1)[-1]
        return urlunsplit(parts._replace(netloc=f"{self.role}:{self.password}@{host}"))

    def start_worker(self, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "slipway_runtime"],
            cwd=self.project,
            env={
                "PATH": os.environ["PATH"],
                "SLIPWAY_DEPLOYMENT_ID": str(self.deployment_id),
                "SLIPWAY_REVISION_ID": str(self.revision_id),
                "SLIPWAY_TENANT_ID": str(self.tenant_id),
                "SLIPWAY_WORKER_DATABASE_URL": self.worker_database_url,
                "SLIPWAY_PROJECT_CONFIG": str(self.project / "langgraph.json"),
                "TEMPORAL_ADDRESS": self.client.service_client.config.target_host,
                "LANGSMITH_TRACING": "false",
                **self.environment,
                **variables,
            },
        )
        self.processes.append(process)
        return process

    async def serve(self, **variables: str) -> subprocess.Popen[bytes]:
        """A worker, and this revision as the deployment's current version."""
        process = self.start_worker(**variables)
        await self.make_current()
        return process

    async def make_current(self) -> None:
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace=self.client.namespace,
            deployment_name=str(self.deployment_id),
            build_id=str(self.revision_id),
            identity="tests",
        )

        async def try_it() -> bool:
            try:
                await self.client.workflow_service.set_worker_deployment_current_version(request)
            except RPCError:
                return False
            return True

        await eventually(try_it)

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    async def thread(self) -> UUID:
        thread_id = new_id()
        async with self.database.connection() as connection:
            await connection.execute(
                "INSERT INTO threads (thread_id, deployment_id, tenant_id) VALUES (%s, %s, %s)",
                (thread_id, self.deployment_id, self.tenant_id),
            )
        return thread_id

    async def insert_run(self, thread_id: UUID, graph_id: str, kwargs: dict[str, Any]) -> UUID:
        run_id = new_id()
        async with self.database.connection() as connection:
            await connection.execute(
                "INSERT INTO runs (run_id, thread_id, deployment_id, tenant_id, assistant_id, graph_id, kwargs)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s)",
                (
                    run_id,
                    thread_id,
                    self.deployment_id,
                    self.tenant_id,
                    uuid4(),
                    graph_id,
                    orjson.dumps(kwargs).decode(),
                ),
            )
            await connection.execute("UPDATE threads SET status = 'busy' WHERE thread_id = %s", (thread_id,))
        return run_id

    async def submit(self, thread_id: UUID, run_id: UUID, **options: Any) -> WorkflowHandle[Any, Any]:
        """Queue a run in its thread's workflow, as the API does."""
        return await self.client.start_workflow(
            THREAD_WORKFLOW,
            ThreadInput(str(self.tenant_id), str(self.deployment_id), str(thread_id), idle_seconds=1.0),
            id=names.thread_workflow_id(str(thread_id)),
            task_queue=names.PLATFORM_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=SUBMIT_SIGNAL,
            start_signal_args=[Run(str(run_id), **options)],
        )

    async def run(self, graph_id: str, thread_id: UUID | None = None, **kwargs: Any) -> tuple[UUID, UUID]:
        """Start a run; its thread's and its own id."""
        thread_id = thread_id or await self.thread()
        run_id = await self.insert_run(thread_id, graph_id, kwargs)
        await self.submit(thread_id, run_id)
        return thread_id, run_id

    async def one(self, query: str, *parameters: Any) -> dict[str, Any]:
        async with self.database.connection() as connection:
            row = await (await connection.execute(query.encode(), parameters)).fetchone()
        assert row is not None
        return row

    async def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        async with self.database.connection() as connection:
            return await (await connection.execute(query.encode(), parameters)).fetchall()

    async def ended(self, run_id: UUID, seconds: float = 30.0) -> dict[str, Any]:
        """The run's row, once it has ended."""

        async def check() -> dict[str, Any] | None:
            row = await self.one("SELECT * FROM runs WHERE run_id = %s", run_id)
            return None if row["status"] in ("pending", "running") else row

        return await eventually(check, seconds)

    async def thread_row(self, thread_id: UUID) -> dict[str, Any]:
        return await self.one("SELECT * FROM threads WHERE thread_id = %s", thread_id)

    async def events(self, run_id: UUID) -> list[dict[str, Any]]:
        return await self.rows("SELECT * FROM thread_events WHERE run_id = %s ORDER BY seq", run_id)

    async def states(self, thread_id: UUID, namespace: str = "") -> list[dict[str, Any]]:
        rows = await self.rows(
            "SELECT state FROM thread_states WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY checkpoint_id",
            thread_id,
            namespace,
        )
        return [row["state"] for row in rows]
