"""Reads that a client's conditions may make long are bounded in time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from api.errors import InvalidError
from api.services import Services
from storage.database import Connection


@asynccontextmanager
async def bounded_reading(services: Services) -> AsyncIterator[Connection]:
    """A connection of which each statement may take `SLIPWAY_TRACE_QUERY_SECONDS`.

    Raises:
        InvalidError: one took longer. Not a 5xx: clients would repeat it.
    """
    seconds = services.settings.trace_query_seconds
    try:
        async with services.database.transaction() as connection:
            await connection.execute(f"SET LOCAL statement_timeout = {round(seconds * 1000)}".encode())
            yield connection
    except psycopg.errors.QueryCanceled:
        raise InvalidError(
            f"The query read for more than {seconds:g} seconds and was stopped. Searches for words, patterns and keys"
            " without a value read every run that the other conditions leave: name a project, start_time and end_time,"
            " or is_root."
        ) from None
