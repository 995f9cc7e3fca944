"""What A2A methods do: messages become runs, tasks are read from them (contract §3.8)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from psycopg.rows import DictRow

from api.agent_server.a2a.schemas import (
    TASK_NOT_FOUND,
    ListParams,
    SendParams,
    TaskParams,
    context_of,
    task_of,
    text_of,
)
from api.agent_server.a2a.tasks import RUN_STATUSES, task_of_run, text_of_content
from api.agent_server.jsonrpc import INVALID_PARAMS, RpcError
from api.agent_server.run_cancellation import cancel_runs
from api.agent_server.run_creation import create_run
from api.agent_server.schemas import RunCommand, RunCreate
from api.agent_server.streams.following import following
from api.errors import NotFoundError
from api.services import Services
from storage.ids import new_id
from storage.ownership import Ownership
from storage.run_results import RunResults
from storage.runs import UNFINISHED, Runs
from storage.served import ServedDeployment
from storage.threads import Threads
from workflows.messages.thread import CancelAction

TASK_NOT_CANCELABLE = -32002
UNSUPPORTED_OPERATION = -32004
HEARTBEAT_SECONDS = 5.0
# The task's own mark: lists show runs that came in this way, and no others.
_MARK = {"a2a": "true"}

Task = dict[str, Any]


@dataclass(frozen=True)
class Agent:
    """One assistant of a deployment, spoken to by another agent."""

    services: Services
    deployment: ServedDeployment
    assistant: DictRow

    async def send(self, params: SendParams) -> DictRow:
        """The run that a message starts: on its context's thread, which is made if it is new.

        Raises:
            RpcError: the message cannot be taken.
        """
        message, text = params.message, text_of(params.message)
        thread_id = context_of(message.context_id)
        resumed = await self._task_to_resume(message.task_id, thread_id) if message.task_id else None
        body: dict[str, Any] = {
            "assistant_id": self.assistant["assistant_id"],
            "metadata": {**(params.metadata or {}), **_MARK},
            "stream_mode": ["values", "messages-tuple"],
            "if_not_exists": "create",
        }
        if resumed:
            body["command"] = RunCommand(resume=text)
        else:
            body["input"] = {"messages": [{"role": "user", "content": text, "id": message.message_id}]}
        thread_id = resumed["thread_id"] if resumed else thread_id or new_id()
        try:
            return await create_run(self.services, self.deployment, thread_id, RunCreate(**body))
        except NotFoundError as error:
            raise RpcError(INVALID_PARAMS, "Invalid params: contextId is not known.") from error

    async def wait(self, run: DictRow) -> AsyncIterator[Task | None]:
        """None for every silence of 5 s, then the task as the run left it."""
        with self.services.notifications.subscribe(str(run["thread_id"]), by_events=False) as changes:
            while True:
                found = await self._run(run["thread_id"], run["run_id"])
                if found is None or found["status"] not in UNFINISHED:
                    yield _or_gone(found, run)
                    return
                if not await changes.wait(HEARTBEAT_SECONDS):
                    yield None

    async def get(self, params: TaskParams) -> Task:
        return task_of_run(await self._require(params.id), params.history_length)

    async def cancel(self, params: TaskParams) -> Task:
        """The task once its run has ended.

        Raises:
            RpcError: there is no such task, or it has ended.
        """
        run = await self._require(params.id)
        if run["status"] not in UNFINISHED:
            raise RpcError(TASK_NOT_CANCELABLE, f"Task {params.id} has ended and cannot be canceled.")
        await cancel_runs(
            self.services,
            self.deployment.scope,
            CancelAction.INTERRUPT,
            thread_id=run["thread_id"],
            run_ids=[run["run_id"]],
        )
        async for task in self.wait(run):
            if task is not None:
                return task
        raise AssertionError("waiting ends with a task")

    async def list(self, params: ListParams) -> dict[str, Any]:
        """A page of tasks, newest first: tasks, nextPageToken, pageSize, totalSize."""
        offset = _offset(params.page_token)
        async with self.services.database.connection() as connection:
            rows = await RunResults(connection, self.deployment.scope).page(
                self.assistant["assistant_id"],
                context_of(params.context_id),
                _statuses(params.status),
                self.deployment.metadata_filter,
                params.page_size,
                offset,
            )
        total = rows[0]["total"] if rows else 0
        more = offset + len(rows) < total
        tasks = [task_of_run(row, params.history_length or 0) for row in rows]
        for task in tasks:
            task["answers"] = task["answers"] if params.include_artifacts else []
        return {
            "tasks": tasks,
            "nextPageToken": str(offset + len(rows)) if more else "",
            "pageSize": len(tasks),
            "totalSize": total,
        }

    async def texts(self, run: DictRow) -> AsyncIterator[str | None]:
        """The agent's message as far as it is written, as it grows; None for every silence. Ends with the run."""
        written: dict[str, str] = {}
        async with following(
            self.services, self.deployment.scope, run["thread_id"], 0, run["run_id"]
        ) as pages:
            async for rows in pages:
                grown = None
                for row in rows:
                    grown = _grown(written, row) or grown
                if grown or not rows:
                    yield grown
                if any(row["event"] == "ended" for row in rows) or (not rows and await self._has_ended(run)):
                    return

    async def require_run(self, task_id: str) -> DictRow:
        return await self._require(task_id)

    async def _task_to_resume(self, task_id: str, thread_id: UUID | None) -> DictRow:
        run = await self._require(task_id)
        if thread_id not in (None, run["thread_id"]):
            raise RpcError(INVALID_PARAMS, "Invalid params: the task belongs to another context.")
        async with self.services.database.connection() as connection:
            thread = await Threads(connection, self.deployment.scope).get(run["thread_id"])
        if thread is None or thread["status"] != "interrupted":
            raise RpcError(UNSUPPORTED_OPERATION, f"Task {task_id} does not wait for input.")
        return run

    async def _require(self, task_id: str) -> DictRow:
        found = await self._run(*task_of(task_id))
        if found is None or found["assistant_id"] != self.assistant["assistant_id"]:
            raise RpcError(TASK_NOT_FOUND, f"Task {task_id} not found.")
        return found

    async def _run(self, thread_id: UUID, run_id: UUID) -> DictRow | None:
        """None also where the thread is another user's, by the project's own authorization."""
        async with self.services.database.connection() as connection:
            if self.deployment.metadata_filter:
                owned = await Ownership(connection, self.deployment.scope).metadata("threads", thread_id)
                if not self.deployment.permits(owned):
                    return None
            return await RunResults(connection, self.deployment.scope).get(thread_id, run_id)

    async def _has_ended(self, run: DictRow) -> bool:
        async with self.services.database.connection() as connection:
            row = await Runs(connection, self.deployment.scope).outcome(run["thread_id"], run["run_id"])
        return row is None or row["status"] not in UNFINISHED


def _or_gone(found: DictRow | None, run: DictRow) -> Task:
    """A run that was deleted while somebody waited for it counts as canceled."""
    return task_of_run(
        found or {**run, "status": "interrupted", "values": None, "next": [], "interrupts": []}
    )


def _grown(written: dict[str, str], row: DictRow) -> str | None:
    """The whole text of the message that a row adds to; None if it adds nothing."""
    if row["event"] != "messages" or row["namespace"]:
        return None
    data = orjson.loads(row["data"])
    chunk = data.get("chunk")
    if not isinstance(chunk, dict) or chunk.get("type") not in ("AIMessageChunk", "ai"):
        return None
    text, message_id = text_of_content(chunk.get("content")), str(chunk.get("id"))
    if not text:
        return None
    whole = text if chunk["type"] == "ai" else written.get(message_id, "") + text
    if written.get(message_id) == whole:
        return None
    written[message_id] = whole
    return whole


def _statuses(state: str | None) -> list[str] | None:
    if not state or state == "TASK_STATE_UNSPECIFIED":
        return None
    name = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    return RUN_STATUSES.get(name, [])


def _offset(token: str | None) -> int:
    if not token:
        return 0
    if not token.isascii() or not token.isdigit() or int(token) > 2**31:
        raise RpcError(INVALID_PARAMS, "Invalid params: pageToken is not one of ours.")
    return int(token)
