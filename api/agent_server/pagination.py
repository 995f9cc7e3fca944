"""Headers of paged answers (contract §2, Pagination)."""

from collections.abc import Sequence
from typing import Any

from fastapi import Response

from api.json_response import OrjsonResponse


def paginate(response: Response, rows: list[Any], limit: int, offset: int) -> list[Any]:
    """The page out of up to `limit + 1` rows.

    Sets `X-Pagination-Total`, a lower bound of the true total, and `X-Pagination-Next` if there is more.
    """
    response.headers["X-Pagination-Total"] = str(offset + len(rows))
    if len(rows) > limit:
        response.headers["X-Pagination-Next"] = str(offset + limit)
    return rows[:limit]


def page_of(rows: list[dict[str, Any]], limit: int, offset: int, fields: Sequence[str]) -> OrjsonResponse:
    """The page as an answer that holds only `fields` of each row, with the same headers."""
    response = OrjsonResponse([{name: row.get(name) for name in fields} for row in rows[:limit]])
    paginate(response, rows, limit, offset)
    return response
