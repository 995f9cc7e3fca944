"""Classic streams (agent server contract §3.4, §4)."""

import re
from typing import Annotated, Any, get_args
from uuid import UUID

import orjson
from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from psycopg.rows import DictRow

from api.agent_server.deployment import CurrentDeployment, ServingDeployment
from api.agent_server.parameters import RunId, ThreadId, errors
from api.agent_server.run_creation import create_run, create_stateless_runs
from api.agent_server.runs import run_path
from api.agent_server.schemas import RunCreate, StreamMode
from api.agent_server.stateless_runs import stateless_run_path
from api.agent_server.streams.run_stream import RunView, stream_run
from api.agent_server.streams.thread_stream import THREAD_MODES, stream_thread
from api.errors import InvalidError, NotFoundError
from api.json_body import JsonRoute
from api.services import CurrentServices, Services
from storage.ownership import Ownership
from storage.runs import Runs
from storage.served import ServedDeployment
from storage.thread_events import ThreadEvents

router = APIRouter(tags=["Streams"], route_class=JsonRoute)

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}}
}
_ID = re.compile(r"-?\d{1,18}")
_FROM_START = ("-", "-1", "0", "")

LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=64)]
ModesQuery = Annotated[list[str] | None, Query(description="One mode, several, or a JSON array of them.")]


@router.post(
    "/threads/{thread_id}/runs/stream",
    summary="Create a run and watch it",
    response_class=StreamingResponse,
    responses={**errors(400, 409), **_STREAM},
)
async def create_and_stream(
    thread_id: ThreadId, body: RunCreate, deployment: ServingDeployment, services: CurrentServices
) -> StreamingResponse:
    row = await create_run(services, deployment, thread_id, body, watched=True)
    view = _view_of(row, cancel_on_disconnect=body.on_disconnect == "cancel")
    return stream_run(services, deployment.scope, view, _locations(run_path(thread_id, row["run_id"])))


@router.post(
    "/runs/stream",
    summary="Create a stateless run and watch it",
    response_class=StreamingResponse,
    responses={**errors(400), **_STREAM},
)
async def create_stateless_and_stream(
    body: RunCreate, deployment: ServingDeployment, services: CurrentServices
) -> StreamingResponse:
    row = (await create_stateless_runs(services, deployment, [body], watched=True))[0]
    view = _view_of(row, cancel_on_disconnect=body.on_disconnect == "cancel")
    headers = {
        "Location": f"{run_path(row['thread_id'], row['run_id'])}/stream",
        "Content-Location": stateless_run_path(row["run_id"]),
    }
    return stream_run(services, deployment.scope, view, headers)


@router.get(
    "/threads/{thread_id}/runs/{run_id}/stream",
    summary="Watch a run, from its beginning or from the event seen last",
    response_class=StreamingResponse,
    responses={**errors(), **_STREAM},
)
async def join(
    thread_id: ThreadId,
    run_id: RunId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    stream_mode: ModesQuery = None,
    cancel_on_disconnect: bool = False,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    row = await _run(services, deployment, run_id, thread_id)
    path = run_path(thread_id, run_id)
    view = _view_of(row, stream_mode, last_event_id, cancel_on_disconnect=cancel_on_disconnect)
    return stream_run(services, deployment.scope, view, _locations(path))


@router.get(
    "/runs/{run_id}/stream",
    summary="Watch a run whose thread one does not know, as a stateless one: while it runs, and a minute after",
    response_class=StreamingResponse,
    responses={**errors(), **_STREAM},
)
async def join_stateless(
    run_id: RunId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    stream_mode: ModesQuery = None,
    cancel_on_disconnect: bool = False,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    row = await _run(services, deployment, run_id)
    async with services.database.connection() as connection:
        metadata = await Ownership(connection, deployment.scope).metadata("threads", row["thread_id"])
    if metadata is None or not deployment.permits(metadata):
        raise NotFoundError("Run not found")
    view = _view_of(row, stream_mode, last_event_id, cancel_on_disconnect=cancel_on_disconnect)
    return stream_run(services, deployment.scope, view, _locations(stateless_run_path(run_id)))


@router.get(
    "/threads/{thread_id}/stream",
    summary="Watch all runs of a thread",
    response_class=StreamingResponse,
    responses={**errors(), **_STREAM},
)
async def watch_thread(
    thread_id: ThreadId,
    deployment: CurrentDeployment,
    services: CurrentServices,
    stream_modes: ModesQuery = None,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    async with services.database.connection() as connection:
        newest = await ThreadEvents(connection, deployment.scope).newest_seq(thread_id)
    if newest is None:
        raise NotFoundError(f"Thread ID {thread_id} not found.")
    modes = _modes(stream_modes, THREAD_MODES) or frozenset({"run_modes"})
    after = newest if last_event_id is None else _cursor(last_event_id) or 0
    return stream_thread(services, deployment.scope, thread_id, modes, after)


async def _run(
    services: Services, deployment: ServedDeployment, run_id: UUID, thread_id: UUID | None = None
) -> DictRow:
    async with services.database.connection() as connection:
        row = await Runs(connection, deployment.scope).to_watch(run_id, thread_id)
    if row is None:
        raise NotFoundError("Run not found")
    return row


def _locations(path: str) -> dict[str, str]:
    return {"Location": f"{path}/stream", "Content-Location": path}


def _view_of(
    row: DictRow,
    stream_mode: list[str] | None = None,
    last_event_id: str | None = None,
    *,
    cancel_on_disconnect: bool = False,
) -> RunView:
    """What the run itself asked to be streamed, unless the reader asks for something else."""
    kwargs = row["kwargs"]
    return RunView(
        thread_id=row["thread_id"],
        run_id=row["run_id"],
        modes=_modes(stream_mode, get_args(StreamMode)) or frozenset(kwargs["stream_mode"]),
        subgraphs=bool(kwargs["subgraphs"]),
        after=_cursor(last_event_id),
        cancel_on_disconnect=cancel_on_disconnect,
        feedback_keys=tuple(kwargs.get("feedback_keys") or ()),
    )


def _modes(given: list[str] | None, known: tuple[str, ...]) -> frozenset[str] | None:
    """Modes of a query: repeated, or one JSON array.

    Raises:
        InvalidError: one of them is unknown.
    """
    modes: list[Any] = []
    for text in given or []:
        try:
            parsed = orjson.loads(text) if text.startswith("[") else text
        except orjson.JSONDecodeError:
            parsed = text
        modes += parsed if isinstance(parsed, list) else [parsed] if parsed else []
    unknown = [mode for mode in modes if mode not in known]
    if unknown:
        raise InvalidError(f"Unknown stream mode {unknown[0]!r}; known are: {', '.join(known)}.")
    return frozenset(modes) or None


def _cursor(last_event_id: str | None) -> int | None:
    """The number of the event seen last; None for the beginning.

    Raises:
        InvalidError: it is no id that this server gives.
    """
    if last_event_id is None or last_event_id in _FROM_START:
        return None
    if not _ID.fullmatch(last_event_id):
        raise InvalidError(f"Last-Event-ID {last_event_id!r} is not an id of this stream.")
    return max(0, int(last_event_id))
