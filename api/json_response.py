"""JSON answers, written by orjson: datetimes, UUIDs and dataclasses as they are."""

from typing import Any

import orjson
from fastapi.responses import JSONResponse


class OrjsonResponse(JSONResponse):
    """An answer whose content may be anything that orjson writes; keys need not be strings."""

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
