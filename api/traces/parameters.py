"""What parameters of several areas have in common: pages, moments, JSON in a query string."""

from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from fastapi import Query
from pydantic import StringConstraints

from api.errors import BadRequestError
from api.traces.text import Text, is_clean

MAX_PAGE = 100
Limit = Annotated[int, Query(ge=1)]
Offset = Annotated[int, Query(ge=0, lt=2**31)]
Name = Annotated[Text, StringConstraints(min_length=1, max_length=512)]
Description = Annotated[Text, StringConstraints(max_length=10_000)]


def aware(moment: datetime | None) -> datetime | None:
    """A moment that names no zone is UTC."""
    return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC)


def read_json_parameter(text: str | None, name: str) -> dict[str, Any] | None:
    """A JSON object in a query parameter.

    Raises:
        BadRequestError: it is something else.
    """
    if text is None:
        return None
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        value = None
    if not isinstance(value, dict) or not is_clean(text):
        raise BadRequestError(f"{name}: expected a JSON object.")
    return value
