"""Creating a run, exactly once (docs/architecture/thread.md)."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from api.agent_server.schemas import RunCreate
from api.agent_server.webhooks import check_webhook
from api.errors import BadRequestError, ConflictError, InvalidError, NotFoundError
from api.services import Services
from storage.assistants import Assistants, system_assistant_id
from storage.database import Connection
from storage.run_fields import given_configurable, run_fields
from storage.run_watchers import RunWatchers
from storage.runs import Runs
from storage.served import ServedDeployment
from storage.threads import Threads
from workflows.messages.lane import LaneInput, LaneRun
from workflows.messages.thread import Run, Strategy, ThreadInput

_NOT_FOUND = "Thread or assistant not found."
_BUSY = "Thread is already running a task. Wait for it to finish or choose a different multitask strategy."


async def create_run(
    services: Services,
    deployment: ServedDeployment,
    thread_id: UUID,
    body: RunCreate,
    *,
    watched: bool = False,
) -> DictRow:
    """Store a run and put it into its thread's queue: both, or neither.

    The thread's row is held from here to the commit, so runs are queued in the order in which they are stored.
    Should the commit fail after the signal, the workflow finds no row and drops the run.
    `watched`: its client stays connected, and takes the run with it if the body says so.

    Raises:
        NotFoundError: no such thread or assistant.
        InvalidError: the assistant is named after a graph that the deployment does not have.
        ConflictError: strategy `reject`, and a run is waiting or running.
        UnavailableError: Temporal or PostgreSQL is away; nothing was stored.
    """
    check_webhook(services, deployment, body.webhook)
    strategy = Strategy(body.multitask_strategy or Strategy.ENQUEUE)
    async with services.submissions.turn(), services.database.transaction() as connection:
        assistant = await find_assistant(connection, deployment, body.assistant_id)
        await _hold_thread(connection, deployment, thread_id, body)
        runs = Runs(connection, deployment.scope)
        if strategy == Strategy.REJECT and await runs.has_unfinished(thread_id):
            raise ConflictError(_BUSY)
        row = await runs.create(_fields(deployment, body, assistant, thread_id))
        await _note_watcher(connection, deployment, row, body, watched)
        await Threads(connection, deployment.scope).set_busy(thread_id)
        await services.gateway.submit_run(
            thread_input(services, deployment, thread_id), _message(services, row, body)
        )
    return row


async def create_stateless_runs(
    services: Services, deployment: ServedDeployment, bodies: list[RunCreate], *, watched: bool = False
) -> list[DictRow]:
    """Store runs, each with a temporary thread of its own, and give them to lanes: all, or none.

    Raises:
        BadRequestError: a run resumes, which needs a thread.
        NotFoundError, InvalidError, UnavailableError: as for `create_run`.
    """
    for body in bodies:
        check_webhook(services, deployment, body.webhook)
        if body.command and body.command.resume is not None:
            raise BadRequestError("You must provide a thread_id when resuming.")
    rows = []
    async with services.submissions.turn(), services.database.transaction() as connection:
        for body in bodies:
            assistant = await find_assistant(connection, deployment, body.assistant_id)
            thread = await Threads(connection, deployment.scope).create(
                metadata=deployment.stamped_metadata,
                temporary=body.on_completion != "keep",
                busy=True,
                **(deployment.thread_ttl if body.on_completion == "keep" else {}),
            )
            assert thread is not None, "a new id is never taken"
            rows.append(
                await Runs(connection, deployment.scope).create(
                    _fields(
                        deployment,
                        body,
                        assistant,
                        thread["thread_id"],
                        services.settings.lanes_per_deployment,
                    )
                )
            )
        for row, body in zip(rows, bodies, strict=True):
            await _note_watcher(connection, deployment, row, body, watched)
            await services.gateway.submit_lane_run(
                LaneInput(
                    str(deployment.scope.tenant_id),
                    str(deployment.scope.deployment_id),
                    services.settings.thread_idle_seconds,
                ),
                row["lane"],
                LaneRun(str(row["thread_id"]), _message(services, row, body)),
            )
    return rows


def thread_input(services: Services, deployment: ServedDeployment, thread_id: UUID) -> ThreadInput:
    """What a thread's workflow starts with."""
    return ThreadInput(
        tenant_id=str(deployment.scope.tenant_id),
        deployment_id=str(deployment.scope.deployment_id),
        thread_id=str(thread_id),
        idle_seconds=services.settings.thread_idle_seconds,
    )


def _fields(
    deployment: ServedDeployment, body: RunCreate, assistant: DictRow, thread_id: UUID, lanes: int = 0
) -> dict[str, Any]:
    given = body.model_dump(exclude={"input"}, exclude_unset=True, exclude_none=True)
    if body.context and given_configurable(given):
        raise BadRequestError("Cannot specify both configurable and context. Prefer setting context alone.")
    given["input"] = body.input
    given["metadata"] = deployment.stamped(body.metadata)
    return run_fields(given, assistant, thread_id, lanes, deployment.server_configurable)


def _message(services: Services, row: DictRow, body: RunCreate) -> Run:
    return Run(
        run_id=str(row["run_id"]),
        strategy=row["multitask_strategy"],
        after_seconds=body.after_seconds or 0.0,
        timeout_seconds=services.settings.run_timeout_seconds,
        max_attempts=services.settings.run_max_attempts,
        webhook=body.webhook is not None,
    )


async def _note_watcher(
    connection: Connection, deployment: ServedDeployment, row: DictRow, body: RunCreate, watched: bool
) -> None:
    """From its first moment on, a run that goes with its client is known as such."""
    if watched and body.on_disconnect == "cancel":
        await RunWatchers(connection, deployment.scope).renew(row["run_id"], row["run_id"])


async def find_assistant(connection: Connection, deployment: ServedDeployment, given: UUID | str) -> DictRow:
    assistants = Assistants(connection, deployment.scope)
    if isinstance(given, str) and given not in deployment.graph_ids:
        raise InvalidError(
            f"Invalid assistant: '{given}'. Must be either: a valid assistant UUID, or the name of a registered"
            f" graph: {', '.join(sorted(deployment.graph_ids))}"
        )
    row = await assistants.get(system_assistant_id(given) if isinstance(given, str) else given)
    if row is None:
        raise NotFoundError(_NOT_FOUND)
    return row


async def _hold_thread(
    connection: Connection, deployment: ServedDeployment, thread_id: UUID, body: RunCreate
) -> None:
    threads = Threads(connection, deployment.scope)
    if locked := await threads.lock(thread_id):
        if not deployment.permits(locked["metadata"]):
            raise NotFoundError(_NOT_FOUND)
        return
    created = body.if_not_exists == "create" and await threads.create(
        thread_id, deployment.stamped(body.metadata), **deployment.thread_ttl
    )
    if not created and not (body.if_not_exists == "create" and await threads.lock(thread_id)):
        raise NotFoundError(_NOT_FOUND)
