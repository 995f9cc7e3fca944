"""Versions of datasets, which are moments, and the tags that name them (trace contract §5.8)."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import DictRow

from storage.database import Connection

LATEST = "latest"


@dataclass(frozen=True)
class VersionDifference:
    """Ids of examples: only in the second version, only in the first, and in both but changed."""

    added: list[UUID]
    removed: list[UUID]
    modified: list[UUID]


async def dataset_versions(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, limit: int, offset: int
) -> list[DictRow]:
    """`as_of` and `tags` of every moment at which an example changed, newest first; the newest is "latest"."""
    cursor = await connection.execute(
        _VERSIONS, {"tenant_id": tenant_id, "id": dataset_id, "limit": limit, "offset": offset}
    )
    return await cursor.fetchall()


_VERSIONS = """
WITH moments AS (
    SELECT valid_from AS as_of FROM examples WHERE tenant_id = %(tenant_id)s AND dataset_id = %(id)s
    UNION SELECT valid_to FROM examples
        WHERE tenant_id = %(tenant_id)s AND dataset_id = %(id)s AND valid_to IS NOT NULL
)
SELECT m.as_of, array(
    SELECT 'latest' WHERE m.as_of = (SELECT max(as_of) FROM moments)
    UNION ALL SELECT t.tag FROM dataset_tags t WHERE t.dataset_id = %(id)s AND t.as_of = m.as_of
) AS tags
FROM moments m ORDER BY m.as_of DESC LIMIT %(limit)s OFFSET %(offset)s
"""


async def resolve_version(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, *, as_of: datetime | None, tag: str | None
) -> datetime | None:
    """The newest version at or before `as_of`, or the one that has the tag; None if there is none."""
    for version in await dataset_versions(connection, tenant_id, dataset_id, 100_000, 0):
        if tag is not None and tag in version["tags"]:
            return version["as_of"]  # type: ignore[no-any-return]
        if as_of is not None and version["as_of"] <= as_of:
            return version["as_of"]  # type: ignore[no-any-return]
    return None


async def put_tag(connection: Connection, dataset_id: UUID, tag: str, as_of: datetime) -> None:
    """Give a version a tag, taking it from the one that had it. The dataset must be the caller's."""
    await connection.execute(
        "INSERT INTO dataset_tags (dataset_id, tag, as_of) VALUES (%s, %s, %s)"
        " ON CONFLICT (dataset_id, tag) DO UPDATE SET as_of = excluded.as_of",
        (dataset_id, tag, as_of),
    )


async def compare_versions(
    connection: Connection, tenant_id: UUID, dataset_id: UUID, first: datetime | None, second: datetime | None
) -> VersionDifference:
    """What changed between two moments; None is now."""
    cursor = await connection.execute(
        _DIFFERENCE, {"tenant_id": tenant_id, "id": dataset_id, "first": first, "second": second}
    )
    found = VersionDifference([], [], [])
    for row in await cursor.fetchall():
        ids = (
            found.removed
            if row["after"] is None
            else found.added
            if row["before"] is None
            else found.modified
        )
        ids.append(row["id"])
    return found


def _version(moment: str) -> str:
    """Current rows of a dataset at a moment."""
    return (
        f"SELECT id, valid_from FROM examples WHERE tenant_id = %(tenant_id)s AND dataset_id = %(id)s"
        f" AND valid_from <= coalesce(%({moment})s::timestamptz, 'infinity')"
        f" AND coalesce(valid_to > %({moment})s::timestamptz, valid_to IS NULL)"
    )


_DIFFERENCE = f"""
SELECT id, a.valid_from AS before, b.valid_from AS after
FROM ({_version("first")}) a FULL JOIN ({_version("second")}) b USING (id)
WHERE a.valid_from IS DISTINCT FROM b.valid_from ORDER BY id
"""
