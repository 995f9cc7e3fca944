"""Export destinations and their credentials, which rotate by versions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.errors import ForeignKeyViolation
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.ids import new_id
from storage.scope import TenantRepository


class DestinationInUseError(Exception):
    """Exports still refer to the destination."""


@dataclass(frozen=True)
class Destination:
    """A destination; of its newest credentials only the names of the fields."""

    id: UUID
    tenant_id: UUID
    destination_type: str
    display_name: str
    config: dict[str, Any]
    credentials_version: int
    credential_keys: list[str]
    created_at: datetime
    updated_at: datetime


_SELECT = """
SELECT d.id, d.tenant_id, d.destination_type, d.display_name, d.config, d.credentials_version,
       c.credential_keys, d.created_at, d.updated_at
FROM (SELECT * FROM export_destinations WHERE {scope}) d
JOIN export_credentials c ON c.destination_id = d.id AND c.version = d.credentials_version
"""
_INSERT_CREDENTIALS = """
INSERT INTO export_credentials (destination_id, version, credential_keys, credentials)
SELECT id, %(version)s, %(keys)s, %(credentials)s FROM export_destinations
WHERE {scope} AND id = %(destination_id)s
"""


class Destinations(TenantRepository):
    """Destinations of one tenant. Credentials come and go encrypted."""

    async def create(
        self, display_name: str, config: dict[str, Any], keys: list[str], credentials: bytes
    ) -> Destination:
        destination_id = new_id()
        await self._connection.execute(
            "INSERT INTO export_destinations (id, tenant_id, display_name, config) VALUES (%s, %s, %s, %s)",
            (destination_id, self.tenant_id, display_name, Jsonb(config)),
        )
        await self._add_credentials(destination_id, 1, keys, credentials)
        created = await self.get(destination_id)
        assert created is not None
        return created

    async def get(self, destination_id: UUID, *, hold: bool = False) -> Destination | None:
        """The destination; with `hold` it can be neither changed nor deleted until the transaction ends."""
        if hold:
            await self.one(
                "SELECT id FROM export_destinations WHERE {scope} AND id = %(id)s FOR UPDATE",
                {"id": destination_id},
            )
        row = await self.one(f"{_SELECT} WHERE d.id = %(id)s", {"id": destination_id})
        return _destination(row) if row else None

    async def all_destinations(self) -> list[Destination]:
        """Newest first."""
        rows = await self.all(f"{_SELECT} ORDER BY d.created_at DESC, d.id DESC")
        return [_destination(row) for row in rows]

    async def rotate(self, destination_id: UUID, keys: list[str], credentials: bytes) -> Destination | None:
        """Make `credentials` the newest; older versions stay only while an unfinished export run uses them."""
        held = await self.get(destination_id, hold=True)
        if held is None:
            return None
        version = held.credentials_version + 1
        await self._add_credentials(destination_id, version, keys, credentials)
        await self.execute(
            "UPDATE export_destinations SET credentials_version = %(version)s, updated_at = now()"
            " WHERE {scope} AND id = %(id)s",
            {"id": destination_id, "version": version},
        )
        await self._forget_old_credentials(destination_id)
        return await self.get(destination_id)

    async def delete(self, destination_id: UUID) -> bool:
        """False if there is no such destination.

        Raises:
            DestinationInUseError: an export refers to it.
        """
        try:
            cursor = await self.execute(
                "DELETE FROM export_destinations WHERE {scope} AND id = %(id)s", {"id": destination_id}
            )
        except ForeignKeyViolation:
            raise DestinationInUseError from None
        return cursor.rowcount == 1

    async def credentials(self, destination_id: UUID, version: int | None = None) -> tuple[int, bytes] | None:
        """Version and encrypted credentials: those of `version` if they are still kept, else the newest."""
        row = await self.one(
            "SELECT c.version, c.credentials FROM export_credentials c"
            " JOIN (SELECT id, credentials_version FROM export_destinations WHERE {scope}) d"
            " ON d.id = c.destination_id WHERE d.id = %(id)s AND c.version IN (%(version)s, d.credentials_version)"
            " ORDER BY c.version = %(version)s DESC NULLS LAST LIMIT 1",
            {"id": destination_id, "version": version},
        )
        return (row["version"], bytes(row["credentials"])) if row else None

    async def _add_credentials(
        self, destination_id: UUID, version: int, keys: list[str], credentials: bytes
    ) -> None:
        await self.execute(
            _INSERT_CREDENTIALS,
            {
                "destination_id": destination_id,
                "version": version,
                "keys": keys,
                "credentials": credentials,
            },
        )

    async def _forget_old_credentials(self, destination_id: UUID) -> None:
        await self.execute(
            "DELETE FROM export_credentials c USING (SELECT * FROM export_destinations WHERE {scope}) d"
            " WHERE d.id = %(id)s AND c.destination_id = d.id AND c.version < d.credentials_version"
            " AND NOT EXISTS (SELECT FROM exports e JOIN export_runs r ON r.export_id = e.id"
            " WHERE e.destination_id = d.id AND r.credentials_version = c.version"
            " AND r.status IN ('CREATED', 'RUNNING'))",
            {"id": destination_id},
        )


def _destination(row: DictRow) -> Destination:
    return Destination(**row)
