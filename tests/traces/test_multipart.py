"""Multipart bodies: what is well formed comes back part by part; anything else is refused, never a crash."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.errors import ApiError
from api.traces.multipart import read_boundary, read_parts
from api.traces.submission import read_batch, read_multipart
from tests.traces.wire import BOUNDARY, json_part, multipart, root_run

DELIMITER = f"--{BOUNDARY}".encode()
RUN_ID = UUID(int=7)
EXAMPLES = settings(max_examples=200, deadline=None)

printable = st.text(st.characters(codec="utf-8", exclude_characters='"\r\n%\x00'), min_size=1, max_size=30)
parts = st.lists(
    st.tuples(
        printable,
        st.sampled_from(["application/json", "image/png", "text/plain; charset=utf-8"]),
        # Data may hold anything but the boundary, also what looks like the end of a part.
        st.binary(max_size=40) | st.sampled_from([b"\r\n--", b"--" + BOUNDARY[:-1].encode(), b"\r\n\r\n"]),
        st.sampled_from(["Content-Length", "length", "none"]),
    ),
    max_size=6,
)


@given(parts)
@EXAMPLES
def test_parts_come_back_in_order_however_they_say_their_length(
    given_parts: list[tuple[str, str, bytes, str]],
) -> None:
    body = bytearray()
    for name, content_type, data, style in given_parts:
        body += DELIMITER + f'\r\nContent-Disposition: form-data; name="{name}"\r\n'.encode()
        length = f"; length={len(data)}" if style == "length" else ""
        body += f"Content-Type: {content_type}{length}\r\n".encode()
        body += f"Content-Length: {len(data)}\r\n".encode() if style == "Content-Length" else b""
        body += b"\r\n" + data + b"\r\n"
    body += DELIMITER + b"--\r\n"
    read = [(part.name, part.content_type, bytes(part.data)) for part in read_parts(body, BOUNDARY.encode())]
    assert read == [(name, content_type, data) for name, content_type, data, _ in given_parts]


names = st.builds(
    "{}{}{}".format,
    st.sampled_from(["post", "patch", "feedback", "attachment", "delete", "", "post..", "\x00"]),
    st.sampled_from([f".{RUN_ID}", f".{RUN_ID}.", ".", "", ".1", f".{{{RUN_ID}}}", ".\ud7ff"]),
    st.sampled_from(["", ".inputs", ".outputs", ".extra", ".events", ".error", ".serialized", ".x", ".a.b"]),
)
numbers = st.integers(-10, 10**20).map(str) | st.sampled_from(["", "٣", "1e3", "0x10", "+1", "9" * 5_000])
json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
run_fields = st.dictionaries(
    st.sampled_from([*root_run(), "parent_run_id", "session_id", "tags", "events", "error", "extra", "key"]),
    json_values,
    max_size=4,
)
fragments = st.one_of(
    st.sampled_from([DELIMITER, b"\r\n", b"--", b"\r\n\r\n", b"\n", b":", b"\x00", b"\xff"]),
    names.map(lambda name: f'Content-Disposition: form-data; name="{name}"\r\n'.encode()),
    names.map(lambda name: f"Content-Disposition: form-data; name*=UTF-8''{name}%ff%00\r\n".encode()),
    numbers.map(lambda number: f"Content-Length: {number}\r\n".encode()),
    numbers.map(lambda number: f"Content-Type: application/json; length={number}\r\n".encode()),
    st.sampled_from([b"Content-Type: text/plain\r\n", b"Content-Encoding: gzip\r\n", b"X" * 9_000]),
    st.builds(lambda name, fields: multipart([json_part(name, fields)])[:-6], names, run_fields),
    json_values.map(lambda value: json_part("", value)[2]),
    st.binary(max_size=20),
)


@given(st.lists(fragments, max_size=12), st.booleans())
@example([b"\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n"], True)
@EXAMPLES
def test_any_body_is_read_or_refused(pieces: list[bytes], begins_well: bool) -> None:
    body = (DELIMITER if begins_well else b"") + b"".join(pieces)
    for read in (lambda: read_multipart(body, BOUNDARY.encode()), lambda: read_batch(body)):
        refuses_at_most(read)


@given(
    st.dictionaries(st.sampled_from(["post", "patch", "x"]), json_values | st.lists(run_fields), max_size=3)
)
@EXAMPLES
def test_any_batch_is_read_or_refused(value: Any) -> None:
    refuses_at_most(lambda: read_batch(json_part("", value)[2]))


@given(run_fields, st.sampled_from(["post", "patch", "feedback"]))
@EXAMPLES
def test_any_fields_of_a_run_are_read_or_refused(fields: dict[str, Any], event: str) -> None:
    body = multipart([json_part(f"{event}.{RUN_ID}", {"id": str(RUN_ID), **fields})])
    refuses_at_most(lambda: read_multipart(body, BOUNDARY.encode()))


@given(st.text(max_size=60) | st.from_regex(r"multipart/form-data; ?boundary=.{0,20}"))
@EXAMPLES
def test_any_content_type_has_a_boundary_or_is_refused(content_type: str) -> None:
    # A header as the server hands it on: bytes as Latin-1.
    header = content_type.encode().decode("latin-1")
    refuses_at_most(lambda: read_boundary(header))


def refuses_at_most(read: Any) -> None:
    """A body that is wrong is the sender's fault, and says so."""
    try:
        read()
    except ApiError as error:
        if not 400 <= error.status < 500 or not error.detail:
            pytest.fail(f"{error.status}: {error.detail}")
