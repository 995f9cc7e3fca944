"""Calls of the demo: an answer that is an error ends the demo and is shown."""

from collections.abc import Awaitable
from typing import Any

import httpx

from stack.demo.steps import DemoError


async def json_of(call: Awaitable[httpx.Response]) -> Any:
    """The answer's JSON.

    Raises:
        DemoError: the status was 4xx or 5xx.
    """
    response = await call
    if response.is_error:
        request = response.request
        raise DemoError(
            f"{request.method} {request.url.path} answered {response.status_code}: {response.text[:500]}"
        )
    return response.json()
