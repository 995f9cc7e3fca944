"""Errors of OTLP over HTTP: a `google.rpc.Status`, written as the request was (OTLP specification, Failures)."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status

from api.errors import SentenceRoute

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
_CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.ABORTED,
    413: Code.INVALID_ARGUMENT,
    415: Code.INVALID_ARGUMENT,
    429: Code.RESOURCE_EXHAUSTED,
    503: Code.UNAVAILABLE,
}


class OtlpRoute(SentenceRoute):
    """`APIRouter(route_class=OtlpRoute)`: errors are Status messages; data that is wrong for ever is a 400."""

    def render_error(
        self, request: Request, status: int, sentence: str, detail: Any, headers: Mapping[str, str] | None
    ) -> Response:
        status = 400 if status == 422 else status
        message = Status(code=_CODES.get(status, Code.UNKNOWN), message=sentence)
        return answer_with(request, message, status, headers)


def content_type_of(request: Request) -> str:
    """The media type of a request's body; protobuf where it names none."""
    return request.headers.get("content-type", PROTOBUF).split(";")[0].strip().lower()


def answer_with(
    request: Request, message: Message, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A message as JSON for a request in JSON, as protobuf for any other."""
    if content_type_of(request) == JSON:
        text = MessageToJson(message, indent=None)
        return Response(text, status, headers, media_type=JSON)
    return Response(message.SerializeToString(), status, headers, media_type=PROTOBUF)
