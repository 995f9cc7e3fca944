"""The streaming protocol over HTTP: commands in, one subscription per stream out (streaming contract §1.2, §2)."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from api.agent_server.deployment import CurrentDeployment, ServingDeployment
from api.agent_server.parameters import ThreadId, errors
from api.agent_server.streams.command_errors import sentence_of
from api.agent_server.streams.commands import Commander, failure
from api.agent_server.streams.following import STREAM_HEADERS
from api.agent_server.streams.protocol_schemas import Command, Subscribe
from api.agent_server.streams.protocol_stream import ResumeGapError, sse_frames, starting_point
from api.json_body import JsonRoute
from api.json_response import OrjsonResponse
from api.services import CurrentServices

router = APIRouter(prefix="/threads/{thread_id}", tags=["Event streaming"], route_class=JsonRoute)

_COMMAND_SCHEMA = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": Command.model_json_schema()}},
    }
}


@router.post(
    "/commands",
    summary="Send a command: run.start, input.respond, input.inject, agent.getTree, state.*",
    response_model=None,
    responses={
        **errors(),
        400: {"description": "A broken envelope: an error of the protocol.", "model": dict[str, Any]},
        200: {"description": "Success or error of the protocol.", "model": dict[str, Any]},
    },
    openapi_extra=_COMMAND_SCHEMA,
)
async def command(
    thread_id: ThreadId, request: Request, deployment: ServingDeployment, services: CurrentServices
) -> OrjsonResponse:
    try:
        given = Command.model_validate(await request.json())
    except ValidationError as error:
        return OrjsonResponse(failure(None, "invalid_argument", sentence_of(error)), 400)
    except ValueError:
        return OrjsonResponse({"detail": "Invalid JSON body"}, 400)
    return OrjsonResponse(await Commander(services, deployment, thread_id).execute(given))


@router.post(
    "/stream",
    summary="Subscribe to events of a thread",
    response_model=None,
    response_class=StreamingResponse,
    responses={**errors(410), 200: {"description": "Events, from the oldest that is kept or `since`."}},
)
@router.post("/stream/events", include_in_schema=False, response_model=None, response_class=StreamingResponse)
async def stream(
    thread_id: ThreadId, body: Subscribe, deployment: CurrentDeployment, services: CurrentServices
) -> StreamingResponse | OrjsonResponse:
    try:
        after = await starting_point(services, deployment.scope, thread_id, body.since)
    except ResumeGapError as gap:
        return OrjsonResponse(gap.answer(), 410)
    frames = sse_frames(services, deployment.scope, thread_id, body.selection, after)
    return StreamingResponse(frames, media_type="text/event-stream", headers=STREAM_HEADERS)
