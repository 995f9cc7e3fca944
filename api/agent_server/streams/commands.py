"""Commands of the streaming protocol that act, and the table of all of them (streaming contract §1.4)."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from psycopg.rows import DictRow
from pydantic import ValidationError

from api.agent_server.run_creation import create_run
from api.agent_server.schemas import CheckpointConfig, LangsmithTracer, RunCommand, RunCreate, Send
from api.agent_server.streams.command_errors import CommandError, invalid, sentence_of
from api.agent_server.streams.protocol_schemas import (
    Command,
    GetTree,
    GotoNode,
    InputInject,
    InputRespond,
    ListCheckpoints,
    RunStart,
    StateFork,
    StateGet,
)
from api.agent_server.streams.state_commands import get_state, get_tree, has_checkpoint, list_checkpoints
from api.errors import BadRequestError, ConflictError, InvalidError
from api.services import Services
from storage.runs import Runs
from storage.served import ServedDeployment
from storage.thread_events import ThreadEvents
from storage.threads import Threads

# Classic readers of such a run see these modes; the protocol's channels need them anyway.
_STREAM_MODES = ["values", "updates", "messages-tuple", "custom", "tasks"]


class ProtocolRun(RunCreate):
    """A run whose record serves every channel of the protocol.

    `inject`: it only brings a message, which the run under way may take up first.
    """

    protocol: bool = True
    inject: bool = False


@dataclass(frozen=True)
class Commander:
    """Executes commands on one thread of one deployment."""

    services: Services
    deployment: ServedDeployment
    thread_id: UUID

    async def execute(self, command: Command) -> dict[str, Any]:
        """The answer to a command, a success or an error of the protocol.

        Raises:
            NotFoundError: the thread belongs to somebody else.
            UnavailableError: Temporal or PostgreSQL is away; nothing was changed.
        """
        # Read before: clients continue after this number, and a run may have said much by the time it is answered for.
        async with self.services.database.connection() as connection:
            seq = await ThreadEvents(connection, self.deployment.scope).newest_seq(self.thread_id)
        try:
            result = await self._dispatch(command)
        except CommandError as error:
            return failure(command.id, error.code, error.message)
        except ValidationError as error:
            return failure(command.id, "invalid_argument", sentence_of(error))
        except (BadRequestError, InvalidError, ConflictError) as error:
            return failure(command.id, "invalid_argument", error.detail)
        return success(command.id, result, seq or 0)

    async def _dispatch(self, command: Command) -> dict[str, Any]:
        scope = self.deployment.scope
        match command.method:
            case "run.start":
                return await self._start(RunStart.model_validate(command.params))
            case "input.respond":
                return await self._respond(InputRespond.model_validate(command.params))
            case "input.inject":
                return await self._inject(InputInject.model_validate(command.params))
            case "state.fork":
                return await self._fork(StateFork.model_validate(command.params))
            case "agent.getTree":
                return await get_tree(
                    self.services, scope, self.thread_id, GetTree.model_validate(command.params)
                )
            case "state.get":
                return await get_state(
                    self.services, scope, self.thread_id, StateGet.model_validate(command.params)
                )
            case "state.listCheckpoints":
                return await list_checkpoints(
                    self.services, scope, self.thread_id, ListCheckpoints.model_validate(command.params)
                )
            case "subscription.subscribe" | "subscription.unsubscribe" | "subscription.reconnect":
                raise CommandError(
                    "not_supported",
                    f"{command.method} needs a WebSocket; over HTTP each stream is its own subscription.",
                )
        raise CommandError("unknown_command", f"Unknown command: {command.method}")

    async def _start(self, start: RunStart) -> dict[str, Any]:
        """A new run; on an interrupted thread the input is the answer that the interrupt waits for."""
        thread = await self._thread()
        configurable = start.config.configurable if start.config else {}
        resumes = (
            thread is not None
            and thread["status"] == "interrupted"
            and bool(thread["interrupts"])
            and start.input is not None
            and not configurable.get("checkpoint_id")
        )
        body = self._body(
            start.assistant_id,
            input=None if resumes else start.input,
            command=RunCommand(resume=start.input) if resumes else None,
            config=start.config,
            metadata=start.metadata,
            multitask_strategy=start.multitask_strategy or start.multitask_strategy_alias,
            langsmith_tracer=LangsmithTracer(**start.langsmith_tracer.model_dump())
            if start.langsmith_tracer
            else None,
        )
        return {"run_id": str((await self._create(body))["run_id"])}

    async def _respond(self, respond: InputRespond) -> dict[str, Any]:
        """Answers to open interrupts, all in one run; of two who answer the same one, only the first succeeds."""
        answers = {answer.interrupt_id: answer.response for answer in respond.responses or []}
        if respond.interrupt_id is not None:
            answers[respond.interrupt_id] = respond.response
        if not answers:
            raise invalid("Give interrupt_id and response, or responses.")
        thread = await self._thread()
        open_ids = (
            {item["id"] for items in thread["interrupts"].values() for item in items} if thread else set()
        )
        unknown = [interrupt_id for interrupt_id in answers if interrupt_id not in open_ids]
        if thread is None or thread["status"] != "interrupted" or unknown:
            raise CommandError(
                "no_such_interrupt", f"No interrupt {next(iter(unknown or answers))} waits for an answer."
            )
        body = self._body(
            await self._assistant_of(thread),
            command=RunCommand(resume=answers, update=respond.update, goto=_goto(respond.goto)),
            config=respond.config,
            metadata=respond.metadata,
            multitask_strategy="reject",
        )
        try:
            row = await self._create(body)
        except ConflictError:
            raise CommandError("no_such_interrupt", "The interrupt has been answered already.") from None
        return {"run_id": str(row["run_id"])}

    async def _inject(self, inject: InputInject) -> dict[str, Any]:
        """A message for the run under way, taken up after one of its next steps; else by a run of its own.

        `run_id`: the message's own run, by which it can be cancelled as long as nobody has taken it.
        """
        if inject.namespace:
            raise CommandError("no_such_namespace", "Messages can only be given to the root graph.")
        thread = await self._thread()
        if thread is None:
            raise CommandError("no_such_run", "The thread has had no run yet.")
        message = {"id": str(uuid4()), **inject.message.model_dump(exclude_none=True)}
        body = self._body(
            await self._assistant_of(thread),
            input={"messages": [message]},
            multitask_strategy="enqueue",
            inject=True,
        )
        run = await self._create(body)
        return {"run_id": str(run["run_id"]), "message_id": message["id"]}

    async def _fork(self, fork: StateFork) -> dict[str, Any]:
        """A run that goes on from a checkpoint in the past."""
        thread = await self._thread()
        if thread is None or not await has_checkpoint(
            self.services, self.deployment.scope, self.thread_id, fork.checkpoint_id
        ):
            raise CommandError("no_such_checkpoint", f"The thread has no checkpoint {fork.checkpoint_id}.")
        body = self._body(
            await self._assistant_of(thread),
            input=fork.input,
            config=fork.config,
            checkpoint=CheckpointConfig(checkpoint_id=fork.checkpoint_id),
        )
        return {"run_id": str((await self._create(body))["run_id"]), "thread_id": str(self.thread_id)}

    def _body(self, assistant_id: UUID | str, **fields: Any) -> ProtocolRun:
        given = {name: value for name, value in fields.items() if value is not None}
        return ProtocolRun(
            assistant_id=assistant_id,
            protocol=True,
            stream_mode=_STREAM_MODES,
            stream_subgraphs=True,
            if_not_exists="create",
            **given,
        )

    async def _create(self, body: ProtocolRun) -> DictRow:
        return await create_run(self.services, self.deployment, self.thread_id, body)

    async def _thread(self) -> DictRow | None:
        async with self.services.database.connection() as connection:
            return await Threads(connection, self.deployment.scope).get(self.thread_id)

    async def _assistant_of(self, thread: DictRow) -> UUID:
        """The assistant of the run under way, or that the thread's newest run was for."""
        async with self.services.database.connection() as connection:
            repository = Runs(connection, self.deployment.scope)
            runs = await repository.page(self.thread_id, "running", 1, 0)
            runs = runs or await repository.page(self.thread_id, None, 1, 0)
        if runs:
            return UUID(str(runs[0]["assistant_id"]))
        if known := thread["metadata"].get("assistant_id"):
            return UUID(known)
        raise CommandError("no_such_run", "The thread has had no run yet.")


def success(command_id: int, result: dict[str, Any], seq: int = 0) -> dict[str, Any]:
    return {"type": "success", "id": command_id, "result": result, "meta": {"applied_through_seq": seq}}


def failure(command_id: int | None, code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "id": command_id, "error": code, "message": message, **more}


def _goto(goto: Any) -> Any:
    if isinstance(goto, list):
        return [_goto(item) for item in goto]
    return Send(node=goto.node, input=goto.input) if isinstance(goto, GotoNode) else goto
