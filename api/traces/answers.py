"""JSON answers whose documents are passed on as stored, without being parsed (orjson.Fragment)."""

from typing import Any

import orjson
from fastapi import Response


class JsonAnswer(Response):
    """`content` as JSON: plain types, UUIDs, datetimes, and fragments of JSON text."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
