"""What runs have in common: `run_facets` of statistics and projects (trace contract §5.5)."""

import json
from typing import Any
from uuid import UUID

from storage.database import Connection
from storage.traces.runs import RunQuery
from storage.traces.stats import run_facets

_FILTERS = {"tag": "has(tags, {})"}


async def read_facets(connection: Connection, tenant_id: UUID, query: RunQuery) -> list[dict[str, Any]]:
    """{key, value, n, query}: the commonest names, types, statuses and tags, and a filter that finds those runs."""
    return [
        {**row, "query": _FILTERS.get(row["key"], f"eq({row['key']}, {{}})").format(json.dumps(row["value"]))}
        for row in await run_facets(connection, tenant_id, query)
    ]
