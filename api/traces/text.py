"""Text and JSON that PostgreSQL can hold: without NUL characters and halves of surrogate pairs."""

from typing import Annotated, Any

import orjson
from pydantic import AfterValidator


def is_clean(text: str) -> bool:
    """Whether PostgreSQL can hold it."""
    if "\x00" in text or "\\u0000" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check(text: str) -> str:
    if not is_clean(text):
        raise ValueError("NUL characters and unpaired surrogates are not allowed")
    return text


Text = Annotated[str, AfterValidator(_check)]


def _check_json(value: dict[str, Any]) -> dict[str, Any]:
    try:
        text = orjson.dumps(value).decode()
    except TypeError as error:
        raise ValueError(str(error)) from None
    if "\\u0000" in text:
        raise ValueError("NUL characters are not allowed")
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_check_json)]
