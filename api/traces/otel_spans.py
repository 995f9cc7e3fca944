"""OTLP requests, as protobuf or JSON, as plain spans (trace contract §5.9)."""

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PlainSpan

from api.errors import InvalidError
from api.traces.otel_limits import check_fields

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NANOSECONDS = 253_402_300_799 * 10**9
_MAX_SPANS = 20_000
_MAX_DEPTH = 50
_IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")


@dataclass
class SpanEvent:
    name: str
    time: datetime
    attributes: dict[str, Any]


@dataclass
class Span:
    """One span with its attributes as plain values; ids are hexadecimal."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    start_time: datetime
    end_time: datetime | None
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: list[SpanEvent] = field(default_factory=list)
    is_error: bool = False
    status_message: str = ""


def read_protobuf(body: bytes | bytearray) -> ExportTraceServiceRequest:
    """An `ExportTraceServiceRequest`.

    Raises:
        InvalidError: it is none.
        TooLargeError: it would become too large.
    """
    check_fields(body)
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(bytes(body))
    except DecodeError as error:
        raise InvalidError(f"The body is not an OTLP ExportTraceServiceRequest: {error}") from None
    return request


def read_json_request(value: Any) -> ExportTraceServiceRequest:
    """The same from its JSON form, in which ids are hexadecimal.

    Raises:
        InvalidError: see `read_protobuf`.
    """
    request = ExportTraceServiceRequest()
    try:
        ParseDict(_with_base64_ids(value, 0), request, ignore_unknown_fields=True)
    except (ParseError, binascii.Error, RecursionError) as error:
        raise InvalidError(f"The body is not an OTLP ExportTraceServiceRequest: {str(error)[:300]}") from None
    return request


def spans_of(request: ExportTraceServiceRequest) -> Iterator[tuple[PlainSpan, dict[str, Any]]]:
    """Every span as it was sent, for `read_span`, with the attributes of its resource.

    Raises:
        InvalidError: there are more than 20,000, or more groups of them.
    """
    groups = spans = 0
    for resource_spans in request.resource_spans:
        resource = _attributes(resource_spans.resource.attributes)
        groups += 1 + len(resource_spans.scope_spans)
        for scope_spans in resource_spans.scope_spans:
            spans += len(scope_spans.spans)
            if max(groups, spans) > _MAX_SPANS:
                raise InvalidError(f"More than {_MAX_SPANS} spans in one request.")
            for span in scope_spans.spans:
                yield span, resource


def read_span(span: PlainSpan, resource: dict[str, Any]) -> Span:
    """A span as plain values.

    Raises:
        InvalidError: its ids or times are malformed.
    """
    if len(span.trace_id) != 16 or len(span.span_id) != 8 or len(span.parent_span_id) not in (0, 8):
        raise InvalidError("A span needs a trace id of 16 bytes and span ids of 8.")
    return Span(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex() or None,
        span.name,
        _time(span.start_time_unix_nano),
        _time(span.end_time_unix_nano) if span.end_time_unix_nano else None,
        _attributes(span.attributes),
        resource,
        [
            SpanEvent(event.name, _time(event.time_unix_nano), _attributes(event.attributes))
            for event in span.events
        ],
        span.status.code == 2,
        span.status.message,
    )


def _with_base64_ids(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise InvalidError("The body is nested too deeply.")
    if isinstance(value, list):
        return [_with_base64_ids(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64encode(bytes.fromhex(item)).decode()
        if name in _IDS and isinstance(item, str) and _is_hex(item)
        else _with_base64_ids(item, depth + 1)
        for name, item in value.items()
    }


def _is_hex(text: str) -> bool:
    return len(text) in (16, 32) and all(character in "0123456789abcdefABCDEF" for character in text)


def _time(nanoseconds: int) -> datetime:
    if not 0 < nanoseconds < _MAX_NANOSECONDS:
        raise InvalidError(f"{nanoseconds} is not a time in nanoseconds.")
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value, 0) for pair in pairs}


def _value(value: AnyValue, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return None
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case "array_value":
            return [_value(item, depth + 1) for item in value.array_value.values]
        case "kvlist_value":
            return {pair.key: _value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    return None
