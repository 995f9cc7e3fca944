"""`/otel/v1/traces`: OTLP over HTTP, protobuf or JSON (trace contract §5.9)."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.authentication import TracingCaller
from api.errors import SentenceRoute
from api.services import CurrentServices
from api.traces.body import UnsupportedEncodingError
from api.traces.documents import read_json
from api.traces.ingest import read_admitted
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
    content_type = request.headers.get("content-type", _PROTOBUF).split(";")[0].strip().lower()
    if content_type not in (_PROTOBUF, "application/json"):
        raise UnsupportedEncodingError(
            f"Content-Type {content_type[:80]!r}: send {_PROTOBUF} or application/json."
        )
    project = request.headers.get("langsmith-project")

    def read(body: bytes | bytearray) -> Submission:
        spans = (
            read_protobuf(body)
            if content_type == _PROTOBUF
            else read_json_request(read_json(body, "The body")[0])
        )
        return Submission([run_of_span(span, project) for span in spans])

    async with services.ingest_gate.admit(request) as admission:
        submission = await read_admitted(services, request, admission, read)
        await store(services, caller, submission)
        await repair_orders(services, caller, submission)
    if content_type == _PROTOBUF:
        return Response(b"", media_type=_PROTOBUF)
    return Response(b"{}", media_type="application/json")
