"""How much an OTLP request would become: an empty message takes 2 bytes on the wire and up to 200 in memory."""

from api.errors import InvalidError, TooLargeError

MAX_FIELDS = 1_000_000
# Less cannot become much.
_UNCOUNTED_BYTES = 500_000
# Which fields of which messages are messages themselves, as far as spans go.
_MESSAGES: dict[str, dict[int, str]] = {
    "ExportTraceServiceRequest": {1: "ResourceSpans"},
    "ResourceSpans": {1: "Attributes", 2: "ScopeSpans"},
    "ScopeSpans": {1: "Scope", 2: "Span"},
    "Scope": {3: "KeyValue"},
    "Span": {9: "KeyValue", 11: "Event", 13: "Link"},
    "Event": {3: "KeyValue"},
    "Link": {4: "KeyValue"},
    "Attributes": {1: "KeyValue"},
    "KeyValue": {2: "AnyValue"},
    "AnyValue": {5: "Values", 6: "Attributes"},
    "Values": {1: "AnyValue"},
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_LENGTHS = {_FIXED64: 8, _FIXED32: 4}


def check_fields(body: bytes | bytearray) -> None:
    """Count the fields of an encoded `ExportTraceServiceRequest` without building it.

    Raises:
        TooLargeError: it has more than `MAX_FIELDS`.
        InvalidError: it is not an encoded message.
    """
    if len(body) <= _UNCOUNTED_BYTES:
        return
    count = 0
    open_messages = [(0, len(body), "ExportTraceServiceRequest")]
    while open_messages:
        position, end, kind = open_messages.pop()
        while position < end:
            count += 1
            if count > MAX_FIELDS:
                raise TooLargeError(
                    f"More than {MAX_FIELDS} fields in one request: send fewer spans at once."
                )
            tag, position = _varint(body, position)
            wire_type = tag & 7
            if wire_type == _VARINT:
                _, position = _varint(body, position)
            elif wire_type == _BYTES:
                length, position = _varint(body, position)
                nested = _MESSAGES[kind].get(tag >> 3)
                if nested:
                    open_messages.append((position, min(position + length, end), nested))
                position += length
            elif wire_type in _FIXED_LENGTHS:
                position += _FIXED_LENGTHS[wire_type]
            else:
                raise _not_a_message()


def _varint(body: bytes | bytearray, position: int) -> tuple[int, int]:
    """A number, and where it ends."""
    number = shift = 0
    while position < len(body) and shift < 70:
        byte = body[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
    raise _not_a_message()


def _not_a_message() -> InvalidError:
    return InvalidError("The body is not an OTLP ExportTraceServiceRequest.")
