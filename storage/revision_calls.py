"""Questions to one revision's worker, by row: what a user sent does not pass through Temporal."""

from typing import Any
from uuid import UUID

from psycopg.types.json import Json

from storage.scope import ScopedRepository


class RevisionCalls(ScopedRepository):
    """Calls of one deployment's revisions."""

    async def add(self, call_id: UUID, revision_id: UUID, kind: str, request: Any) -> None:
        await self._connection.execute(
            "INSERT INTO revision_calls (call_id, deployment_id, tenant_id, revision_id, kind, request)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            (call_id, self.scope.deployment_id, self.scope.tenant_id, revision_id, kind, Json(request)),
        )

    async def take(self, call_id: UUID) -> Any:
        """Delete a call; its response, None if there is none."""
        row = await self.one(
            "DELETE FROM revision_calls WHERE {scope} AND call_id = %(call_id)s RETURNING response",
            {"call_id": call_id},
        )
        return row["response"] if row else None
