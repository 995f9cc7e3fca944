"""`/otel/v1/traces`: OTLP over HTTP, protobuf or JSON (trace contract §5.9)."""

from fastapi import APIRouter, Request
from fastapi.responses import Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from api.authentication import TracingCaller
from api.errors import BadRequestError, InvalidError
from api.services import CurrentServices
from api.traces.body import UnsupportedEncodingError
from api.traces.documents import read_json
from api.traces.ingest import read_admitted
from api.traces.order_repair import repair_orders
from api.traces.otel_errors import JSON, PROTOBUF, OtlpRoute, answer_with, content_type_of
from api.traces.otel_limits import MAX_FIELDS
from api.traces.otel_mapping import run_of_span
from api.traces.otel_spans import read_json_request, read_protobuf, read_span, spans_of
from api.traces.submission import Submission
from api.traces.writing import store

router = APIRouter(tags=["traces"], route_class=OtlpRoute)


@router.post("/otel/v1/traces")
async def ingest_spans(request: Request, services: CurrentServices, caller: TracingCaller) -> Response:
    """Spans as runs, committed when this answers; a project by the header Langsmith-Project.

    Spans that cannot be runs are counted in `partial_success`, with what is wrong with the first; the others are
    stored. A request of which nothing can be read is a 400.
    """
    content_type = content_type_of(request)
    if content_type not in (PROTOBUF, JSON):
        raise UnsupportedEncodingError(f"Content-Type {content_type[:80]!r}: send {PROTOBUF} or {JSON}.")
    project = request.headers.get("langsmith-project")
    rejected = ExportTracePartialSuccess()

    def read(body: bytes | bytearray) -> Submission:
        if content_type == PROTOBUF:
            message = read_protobuf(body)
        else:
            message = read_json_request(read_json(body, "The body", max_values=MAX_FIELDS)[0])
        submission = Submission()
        for span, resource in spans_of(message):
            try:
                submission.changes.append(run_of_span(read_span(span, resource), project))
            except InvalidError as error:
                rejected.rejected_spans += 1
                rejected.error_message = rejected.error_message or error.detail
        if rejected.rejected_spans and not submission.changes:
            raise BadRequestError(rejected.error_message)
        return submission

    async with services.ingest_gate.admit(request, caller.tenant_id) as admission:
        submission = await read_admitted(services, request, admission, read)
        await store(services, caller, submission)
        await repair_orders(services, caller.tenant_id, submission)
    return answer_with(
        request,
        ExportTraceServiceResponse(partial_success=rejected if rejected.rejected_spans else None),
    )
