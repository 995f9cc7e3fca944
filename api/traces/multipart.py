"""Multipart bodies of `/runs/multipart` and of examples: parts in order, over one buffer, without copies."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from api.errors import InvalidError

MAX_PARTS = 50_000
_MAX_HEADERS = 8_192
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;,]{1,200}))', re.IGNORECASE)
_NAME = re.compile(rb"""\bname="([^"]*)\"""", re.IGNORECASE)
_EXTENDED_NAME = re.compile(rb"\bname\*=(?:utf-8|UTF-8)''([^\s;]+)", re.IGNORECASE)
_DIGITS = re.compile(rb"\d{1,15}")
_LENGTH = re.compile(rb";\s*length=(\d{1,15})\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    content_type: str
    data: memoryview


def read_boundary(content_type: str) -> bytes:
    """The boundary that a request's Content-Type names.

    Raises:
        InvalidError: it is not multipart/form-data, or names none.
    """
    match = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or match is None:
        raise InvalidError("Expected Content-Type multipart/form-data with a boundary.")
    return (match[1] or match[2]).encode("latin-1")


def read_parts(body: bytes | bytearray, boundary: bytes) -> list[Part]:
    """Every part of a whole multipart body, in order. The parts' data are views of `body`.

    A part that declares its length (Content-Length, or `length=` in its Content-Type) must have exactly that.

    Raises:
        InvalidError: the body is not what its boundary says.
    """
    delimiter = b"--" + boundary
    next_delimiter = b"\r\n" + delimiter
    if not body.startswith(delimiter):
        raise InvalidError("The multipart body does not begin with its boundary.")
    view = memoryview(body)
    parts: list[Part] = []
    position = len(delimiter)
    while True:
        if body[position : position + 2] == b"--":
            return parts
        if body[position : position + 2] != b"\r\n":
            raise InvalidError(f"Broken multipart boundary at byte {position}.")
        if len(parts) >= MAX_PARTS:
            raise InvalidError(f"More than {MAX_PARTS} parts in one request.")
        headers_end = body.find(b"\r\n\r\n", position, position + _MAX_HEADERS)
        if headers_end < 0:
            raise InvalidError(
                f"Part {len(parts) + 1} has no end of its headers within {_MAX_HEADERS} bytes."
            )
        name, content_type, length = _read_headers(bytes(view[position + 2 : headers_end]), len(parts) + 1)
        start = headers_end + 4
        end = start + length if length is not None else body.find(next_delimiter, start)
        if end < 0 or body[end : end + len(next_delimiter)] != next_delimiter:
            raise InvalidError(f"Part {name!r} does not end with the boundary where it should.")
        parts.append(Part(name, content_type, view[start:end]))
        position = end + len(next_delimiter)


def _read_headers(block: bytes, number: int) -> tuple[str, str, int | None]:
    """Name, content type without its length, and declared length of a part."""
    name: str | None = None
    content_type = b""
    length: int | None = None
    for line in block.split(b"\r\n"):
        header, colon, value = line.partition(b":")
        if not colon:
            raise InvalidError(f"Part {number} has a broken header line.")
        match header.strip().lower():
            case b"content-disposition":
                name = _read_name(value)
            case b"content-type":
                declared = _LENGTH.search(value)
                if declared:
                    length, value = int(declared[1]), value[: declared.start()]
                content_type = value.strip()
            case b"content-length":
                if not _DIGITS.fullmatch(value.strip()):
                    raise InvalidError(f"Part {number} has a broken Content-Length.")
                length = int(value)
            case b"content-encoding":
                raise InvalidError(f"Part {number} has a Content-Encoding: encode the whole body instead.")
    if name is None:
        raise InvalidError(f"Part {number} has no name.")
    return name, content_type.decode("latin-1"), length


def _read_name(disposition: bytes) -> str | None:
    extended = _EXTENDED_NAME.search(disposition)
    if extended:
        return unquote(extended[1].decode("latin-1"), errors="replace")
    match = _NAME.search(disposition)
    return match[1].decode("utf-8", errors="replace").replace("%22", '"') if match else None
