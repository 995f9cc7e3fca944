"""The long-term store of a deployment (agent server contract §3.7; docs/architecture/store.md).

The tables are langgraph's own, which graphs read and write through its client. A namespace is stored as its labels
joined by dots below the deployment's id.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncCursor
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from storage.database import Connection
from storage.scope import ScopedRepository

_COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
OPERATORS = ("$eq", "$ne", *_COMPARISONS)
# Their tables know the deployment only; the tenant is asked of it.
_SCOPE = (
    "deployment_id = (SELECT id FROM deployments WHERE id = %(deployment_id)s AND tenant_id = %(tenant_id)s)"
)
_LIVE = "(expires_at IS NULL OR expires_at > now())"
_COLUMNS = "(string_to_array(prefix, '.'))[2:] AS namespace, key, value, created_at, updated_at"
_REFRESHED = "expires_at = now() + make_interval(secs => ttl_minutes * 60)"


class StoreItems(ScopedRepository):
    """Items of one deployment. Rows: namespace (a list of labels), key, value, created_at, updated_at."""

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, alias: str | None = None
    ) -> AsyncCursor[DictRow]:
        if "{scope}" not in statement:
            raise ValueError(f"Statement without tenant predicate: {statement}")
        ids = {"tenant_id": self.scope.tenant_id, "deployment_id": self.scope.deployment_id}
        return await self._connection.execute(
            statement.replace("{scope}", _SCOPE).encode(), {**(parameters or {}), **ids}
        )

    async def put(
        self, namespace: Sequence[str], key: str, value: dict[str, Any], ttl_minutes: float | None
    ) -> None:
        """Store an item in place of what is there."""
        await self.execute(
            "INSERT INTO store AS s (prefix, key, value, expires_at, ttl_minutes)"
            " SELECT %(prefix)s, %(key)s, %(value)s, now() + make_interval(secs => %(ttl)s::double precision * 60),"
            " %(ttl)s::double precision FROM (SELECT id AS deployment_id FROM deployments"
            " WHERE id = %(deployment_id)s) own WHERE {scope}"
            " ON CONFLICT (prefix, key) DO UPDATE SET value = excluded.value, updated_at = now(),"
            " expires_at = excluded.expires_at, ttl_minutes = excluded.ttl_minutes",
            {"prefix": self._prefix(namespace), "key": key, "value": Jsonb(value), "ttl": ttl_minutes},
        )

    async def get(self, namespace: Sequence[str], key: str, *, refresh_ttl: bool) -> DictRow | None:
        """The item; `refresh_ttl` lets its time begin anew."""
        place = {"prefix": self._prefix(namespace), "key": key}
        if refresh_ttl:
            await self.execute(
                f"UPDATE store SET {_REFRESHED} WHERE {{scope}} AND prefix = %(prefix)s AND key = %(key)s"
                f" AND ttl_minutes IS NOT NULL AND {_LIVE}",
                place,
            )
        return await self.one(
            f"SELECT {_COLUMNS} FROM store WHERE {{scope}} AND prefix = %(prefix)s AND key = %(key)s AND {_LIVE}",
            place,
        )

    async def delete(self, namespace: Sequence[str], key: str) -> None:
        await self.execute(
            "DELETE FROM store WHERE {scope} AND prefix = %(prefix)s AND key = %(key)s",
            {"prefix": self._prefix(namespace), "key": key},
        )

    async def search(
        self,
        namespace_prefix: Sequence[str],
        filters: Mapping[str, Any],
        limit: int,
        offset: int,
        *,
        refresh_ttl: bool,
    ) -> list[DictRow]:
        """Items in and below a namespace, the newest first. `filters`: values, or objects of `OPERATORS`."""
        prefix = self._prefix(namespace_prefix)
        conditions, parameters = _conditions(filters)
        parameters |= {"prefix": prefix, "below": f"{_escaped(prefix)}.%", "limit": limit, "offset": offset}
        found = (
            f"SELECT prefix, key, value, created_at, updated_at FROM store WHERE {{scope}} AND {_LIVE}"
            f" AND (prefix = %(prefix)s OR prefix LIKE %(below)s){conditions}"
            " ORDER BY updated_at DESC, prefix, key LIMIT %(limit)s OFFSET %(offset)s"
        )
        refresh = (
            f", refreshed AS (UPDATE store SET {_REFRESHED} FROM found WHERE store.prefix = found.prefix"
            " AND store.key = found.key AND ttl_minutes IS NOT NULL)"
        )
        return await self.all(
            f"WITH found AS ({found}){refresh if refresh_ttl else ''} SELECT {_COLUMNS} FROM found"
            " ORDER BY updated_at DESC, prefix, key",
            parameters,
        )

    async def namespaces(
        self,
        prefix: Sequence[str],
        suffix: Sequence[str],
        max_depth: int | None,
        limit: int,
        offset: int,
    ) -> list[list[str]]:
        """Namespaces with items, cut to `max_depth` labels. `*` in prefix and suffix stands for any one label."""
        rows = await self.all(
            "SELECT DISTINCT labels[:coalesce(%(max_depth)s::integer, cardinality(labels))] AS namespace FROM"
            " (SELECT DISTINCT (string_to_array(prefix, '.'))[2:] AS labels FROM store"
            f"  WHERE {{scope}} AND {_LIVE}) every"
            " WHERE cardinality(labels) >= greatest(cardinality(%(prefix)s::text[]), cardinality(%(suffix)s::text[]))"
            " AND NOT EXISTS (SELECT FROM unnest(%(prefix)s::text[]) WITH ORDINALITY AS p (label, place)"
            "  WHERE label <> '*' AND labels[place] <> label)"
            " AND NOT EXISTS (SELECT FROM unnest(%(suffix)s::text[]) WITH ORDINALITY AS p (label, place)"
            "  WHERE label <> '*' AND"
            "  labels[cardinality(labels) - cardinality(%(suffix)s::text[]) + place] <> label)"
            " ORDER BY namespace LIMIT %(limit)s OFFSET %(offset)s",
            {
                "prefix": list(prefix),
                "suffix": list(suffix),
                "max_depth": max_depth,
                "limit": limit,
                "offset": offset,
            },
        )
        return [row["namespace"] for row in rows]

    def _prefix(self, namespace: Sequence[str]) -> str:
        return ".".join((str(self.scope.deployment_id), *namespace))


async def sweep_expired_items(connection: Connection, limit: int) -> int:
    """Delete up to `limit` items of all deployments whose time is over; how many there were."""
    cursor = await connection.execute(
        "DELETE FROM store WHERE (prefix, key) IN (SELECT prefix, key FROM store WHERE expires_at < now()"
        " LIMIT %s FOR UPDATE SKIP LOCKED) AND expires_at < now()",
        (limit,),
    )
    return cursor.rowcount


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _conditions(filters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """SQL of a filter; keys and operands only ever as parameters."""
    parts: list[str] = []
    parameters: dict[str, Any] = {}
    for key, wanted in filters.items():
        is_operators = isinstance(wanted, dict) and bool(wanted) and all(name in OPERATORS for name in wanted)
        for operator, operand in wanted.items() if is_operators else [("$eq", wanted)]:
            place = len(parameters)
            parameters |= {f"key{place}": key, f"operand{place}": Jsonb(operand)}
            parts.append(_condition(operator, f"value->%(key{place})s", f"%(operand{place})s::jsonb"))
    return "".join(f" AND {part}" for part in parts), parameters


def _condition(operator: str, field: str, operand: str) -> str:
    if operator == "$eq":
        return f"{field} = {operand}"
    if operator == "$ne":
        return f"{field} IS DISTINCT FROM {operand}"
    # Values of one type have an order; values of two types have none.
    return f"(jsonb_typeof({field}) = jsonb_typeof({operand}) AND {field} {_COMPARISONS[operator]} {operand})"
