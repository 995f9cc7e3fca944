"""`/otel/v1/traces`: OTLP over HTTP, protobuf or JSON (trace contract §5.9)."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.authentication import TracingCaller
from api.errors import SentenceRoute
from api.services import CurrentServices
from api.traces.body import UnsupportedEncodingError, decode_body
from api.traces.documents import read_json
from api.traces.ingest import gate
from api.traces.order_repair import repair_orders
from api.traces.otel_mapping import run_of_span
from api.traces.otel_spans import read_json_request, read_protobuf
from api.traces.submission import Submission
from api.traces.writing import store

router = APIRouter(tags=["traces"], route_class=SentenceRoute)

_PROTOBUF = "application/x-protobuf"


@router.post("/otel/v1/traces")
async def ingest_spans(request: Request, services: CurrentServices, caller: TracingCaller) -> Response:
    """Spans as runs, committed when this answers; a project by the header Langsmith-Project."""
    body = await request.body()
    content_type = request.headers.get("content-type", _PROTOBUF).split(";")[0].strip().lower()
    if content_type not in (_PROTOBUF, "application/json"):
        raise UnsupportedEncodingError(
            f"Content-Type {content_type[:80]!r}: send {_PROTOBUF} or application/json."
        )
    encoding = request.headers.get("content-encoding", "")
    project = request.headers.get("langsmith-project")

    def submission_of() -> Submission:
        decoded = decode_body(body, encoding, services.settings.max_trace_body_bytes)
        if content_type == _PROTOBUF:
            spans = read_protobuf(decoded)
        else:
            spans = read_json_request(read_json(decoded, "The body")[0])
        return Submission([run_of_span(span, project) for span in spans])

    async with gate.enter(len(body)):
        submission = await asyncio.to_thread(submission_of)
        await store(services, caller, submission)
        await repair_orders(services, caller, submission)
    if content_type == _PROTOBUF:
        return Response(b"", media_type=_PROTOBUF)
    return Response(b"{}", media_type="application/json")
