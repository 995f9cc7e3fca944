"""Searching threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.scope import ScopedRepository
from storage.threads import COLUMNS, SORT_COLUMNS, VISIBLE

# Documents below which a path may lead.
EXTRACTABLE = ("values", "metadata", "config", "interrupts", "error")
# Elsewhere there are none, and saying where they go would keep the index from being used.
_NULLS = {"state_updated_at": " NULLS LAST"}
_COMPUTED = {"context": "'{}'::jsonb AS context"}


@dataclass(frozen=True)
class Extraction:
    """One value out of a document of a thread: names of keys and numbers of items, negative from the end."""

    alias: str
    document: str
    steps: list[str]


class ThreadSearch(ScopedRepository):
    """Searches over one deployment's threads."""

    async def page(
        self,
        filters: dict[str, Any],
        sort_by: str,
        descending: bool,
        limit: int,
        offset: int,
        *,
        fields: Sequence[str] = tuple(COLUMNS.split(", ")),
        extract: Sequence[Extraction] = (),
    ) -> list[DictRow]:
        """By ids, metadata and values (containment) and status. Rows hold `fields`, and `extracted` by alias."""
        assert sort_by in SORT_COLUMNS
        columns = [_COMPUTED.get(field, field) for field in fields]
        condition, wanted = _conditions(filters)
        parameters = {**wanted, "limit": limit, "offset": offset}
        for number, extraction in enumerate(extract):
            assert extraction.document in EXTRACTABLE
            columns.append(f"{extraction.document} #> %(path_{number})s::text[] AS extracted_{number}")
            parameters[f"path_{number}"] = extraction.steps
        rows = await self.all(
            f"SELECT {', '.join(columns)} FROM threads WHERE {{scope}}{condition}"
            f" ORDER BY {sort_by} {'DESC' if descending else 'ASC'}{_NULLS.get(sort_by, '')}, thread_id"
            " LIMIT %(limit)s OFFSET %(offset)s",
            parameters,
        )
        return [_collected(row, extract) for row in rows] if extract else rows

    async def count(self, filters: dict[str, Any]) -> int:
        condition, wanted = _conditions(filters)
        row = await self.one(f"SELECT count(*) FROM threads WHERE {{scope}}{condition}", wanted)
        return int(row["count"]) if row else 0


# Only what is asked for becomes part of a statement, so that the index on metadata can be used where it helps.
_CONDITIONS = {
    "metadata": "metadata @> %(metadata)s",
    "values": "values @> %(values)s",
    "status": "status = %(status)s",
    "ids": "thread_id = ANY(%(ids)s)",
}


def _conditions(filters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The rest of the WHERE clause, and its parameters. An empty object filters nothing, an empty list everything."""
    wanted = {name: value for name, value in filters.items() if value is not None and value != {}}
    conditions = [VISIBLE, *(_CONDITIONS[name] for name in wanted)]
    parameters = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in wanted.items()}
    return "".join(f" AND {condition}" for condition in conditions), parameters


def _collected(row: DictRow, extract: Sequence[Extraction]) -> DictRow:
    extracted = {wanted.alias: row.pop(f"extracted_{number}") for number, wanted in enumerate(extract)}
    return {**row, "extracted": extracted}
