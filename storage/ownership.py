"""Metadata of single rows, by which a project's own authorization tells whose they are."""

from typing import Any
from uuid import UUID

from storage.scope import ScopedRepository

_TABLES = {
    "threads": ("threads", "thread_id"),
    "assistants": ("assistants", "assistant_id"),
    "crons": ("crons", "cron_id"),
}


class Ownership(ScopedRepository):
    """Rows of one deployment."""

    async def metadata(self, resource: str, row_id: UUID) -> dict[str, Any] | None:
        """None if there is no such row."""
        table, key = _TABLES[resource]
        row = await self.one(
            f"SELECT metadata FROM {table} WHERE {{scope}} AND {key} = %(row_id)s", {"row_id": row_id}
        )
        return row["metadata"] if row else None
