"""Creates and patches of a tree give the same stored tree, however they are split, ordered and repeated."""

import asyncio
import random
import uuid
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import DictRow

from api.traces.run_reader import read_run
from storage.database import Database
from storage.projects import projects_for_writing
from storage.tenancy import create_tenant
from storage.traces.changes import RunChange
from storage.traces.deletion import delete_runs_by_id
from storage.traces.ingest import Batch, ingest
from storage.traces.order import segment_of
from storage.traces.partitions import ensure_partitions
from tests.stacks import Stack

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
Operation = tuple[UUID, bool, dict[str, Any]]


class Tree:
    """A chain of runs with side branches: root, children, grandchildren; every third run is a model call."""

    def __init__(self, size: int) -> None:
        self.operations: list[Operation] = []
        ids: list[UUID] = []
        orders: list[str] = []
        for place in range(size):
            run_id = uuid.uuid4()
            began = START + timedelta(seconds=place)
            parent = None if place == 0 else (place - 1) // 2
            own = segment_of(run_id, began)
            orders.append(own if parent is None else f"{orders[parent]}.{own}")
            ids.append(run_id)
            identity: dict[str, Any] = {
                "id": str(run_id),
                "trace_id": str(ids[0]),
                "dotted_order": orders[place],
                "parent_run_id": None if parent is None else str(ids[parent]),
                "name": f"run {place}",
                "run_type": "llm" if place % 3 == 2 else "chain",
            }
            create = {
                **identity,
                "start_time": began.isoformat(),
                "inputs": {"question": place},
                "outputs": {},
                "events": [],
                "tags": [],
                "extra": {"metadata": {"place": place}},
            }
            patch = {
                **identity,
                "session_id": None,
                "end_time": (began + timedelta(seconds=1)).isoformat(),
                "outputs": {
                    "answer": place,
                    "usage_metadata": {"input_tokens": place, "output_tokens": 1, "total_cost": 0.5},
                },
                "error": "boom" if place == 3 else None,
                "tags": ["done"],
            }
            self.operations += [(run_id, True, create), (run_id, False, patch)]
        self.ids = ids

    def expected_totals(self, place: int, gone: Collection[int] = ()) -> tuple[int, Decimal | None]:
        """Tokens and costs of a run's subtree without the runs `gone`."""
        kept = [n for n in range(len(self.ids)) if n not in gone]
        below = [n for n in kept if self._is_below(n, place) and n % 3 == 2]
        return sum(n + 1 for n in below), Decimal("0.5") * len(below) if below else None

    def _is_below(self, node: int, ancestor: int) -> bool:
        while node > ancestor:
            node = (node - 1) // 2
        return node == ancestor


@pytest.fixture(scope="module")
async def tenant_id(database: Database) -> UUID:
    await ensure_partitions(database, [START])
    async with database.transaction() as connection:
        return (await create_tenant(connection, "merge")).tenant_id


async def send(database: Database, tenant_id: UUID, operations: list[Operation]) -> None:
    """One request."""
    changes: list[RunChange] = [
        read_run(run_id, is_create, dict(main)) for run_id, is_create, main in operations
    ]
    async with database.transaction() as connection:
        by_name, by_id = await projects_for_writing(connection, tenant_id, ["merge"], [])
        for change in changes:
            change.values["session_id"] = by_name["merge"].project_id
        await ingest(connection, Batch(tenant_id, changes, by_id))


async def stored(database: Database, tenant_id: UUID, trace_id: UUID) -> dict[UUID, DictRow]:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT * FROM trace_runs WHERE tenant_id = %s AND trace_id = %s", (tenant_id, trace_id)
        )
        rows = await cursor.fetchall()
        cursor = await connection.execute(
            "SELECT count(*) AS n FROM trace_run_keys k JOIN trace_runs r ON r.id = k.id"
            " AND r.start_time = k.start_time AND r.session_id = k.session_id"
            " WHERE k.tenant_id = %s AND r.trace_id = %s",
            (tenant_id, trace_id),
        )
        keys = await cursor.fetchone()
    assert keys is not None and keys["n"] == len(rows)
    return {row["id"]: row for row in rows}


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[Tree, list[list[Operation]]]:
    """A tree's operations in any order, some of them again, cut into requests anywhere."""
    tree = Tree(draw(st.integers(1, 8)))
    repeated = draw(st.lists(st.sampled_from(tree.operations), max_size=4))
    order = draw(st.permutations([*tree.operations, *repeated]))
    cuts = sorted(draw(st.sets(st.integers(1, max(len(order) - 1, 1)), max_size=5)))
    bounds = [0, *cuts, len(order)]
    return tree, [order[a:b] for a, b in pairwise(bounds) if a < b]


@given(delivery=deliveries())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_split_order_and_repetition_gives_the_same_tree(
    stack: Stack, tenant_id: UUID, delivery: tuple[Tree, list[list[Operation]]]
) -> None:
    async def deliver() -> dict[UUID, DictRow]:
        async with Database(stack.database_url, 2) as database:
            for request in requests:
                await send(database, tenant_id, request)
            return await stored(database, tenant_id, tree.ids[0])

    tree, requests = delivery
    rows = asyncio.run(deliver())
    assert len(rows) == len(tree.ids)
    for place, run_id in enumerate(tree.ids):
        row = rows[run_id]
        tokens, cost = tree.expected_totals(place)
        assert row["name"] == f"run {place}"
        assert row["inputs"] == f'{{"question":{place}}}'
        assert row["outputs"].startswith(f'{{"answer":{place}')
        assert row["status"] == ("error" if place == 3 else "success")
        assert row["tags"] == ["done"]
        assert row["metadata_pairs"] == {"place": [str(place)]}
        assert row["start_time"] == START + timedelta(seconds=place)
        assert row["is_root"] == (place == 0)
        assert (row["total_tokens"], row["total_cost"]) == (tokens, cost)


async def test_requests_that_race_leave_the_same_tree(database: Database, tenant_id: UUID) -> None:

    for seed in range(5):
        tree = Tree(9)
        operations = [*tree.operations, *tree.operations]
        random.Random(seed).shuffle(operations)
        await asyncio.gather(
            *(
                send(database, tenant_id, operations[start : start + 3])
                for start in range(0, len(operations), 3)
            )
        )
        rows = await stored(database, tenant_id, tree.ids[0])
        assert {run_id: row["total_tokens"] for run_id, row in rows.items()} == {
            run_id: tree.expected_totals(place)[0] for place, run_id in enumerate(tree.ids)
        }


async def test_sums_are_those_of_what_is_left_also_while_runs_are_deleted(
    database: Database, tenant_id: UUID
) -> None:
    async def delete(run_ids: list[UUID]) -> None:
        async with database.transaction() as connection:
            await delete_runs_by_id(connection, tenant_id, run_ids)

    for seed in range(6):
        chance = random.Random(seed)
        tree = Tree(12)
        late = set(chance.sample(range(12), 4))
        first = [one for place, one in enumerate(tree.operations) if place // 2 not in late]
        second = [one for place, one in enumerate(tree.operations) if place // 2 in late]
        await send(database, tenant_id, first)
        gone = set(chance.sample(sorted(set(range(12)) - late), 5))
        await asyncio.gather(
            delete([tree.ids[place] for place in gone]),
            *(send(database, tenant_id, second[start : start + 2]) for start in range(0, len(second), 2)),
        )
        rows = await stored(database, tenant_id, tree.ids[0])
        assert set(rows) == {run_id for place, run_id in enumerate(tree.ids) if place not in gone}
        for place in set(range(12)) - gone:
            row = rows[tree.ids[place]]
            assert (row["total_tokens"], row["total_cost"]) == tree.expected_totals(place, gone)


async def test_a_null_in_a_patch_erases_nothing(database: Database, tenant_id: UUID) -> None:
    tree = Tree(1)
    (run_id, _, create), (_, _, patch) = tree.operations
    await send(database, tenant_id, [(run_id, True, create), (run_id, False, patch)])
    nothing = dict.fromkeys((*create, "end_time", "error")) | {"id": str(run_id)}
    await send(database, tenant_id, [(run_id, False, nothing)])
    row = (await stored(database, tenant_id, run_id))[run_id]
    assert row["inputs"] == '{"question":0}'
    assert row["end_time"] == START + timedelta(seconds=1)


async def test_a_later_patch_replaces_documents_whole(database: Database, tenant_id: UUID) -> None:
    run_id, _, create = Tree(1).operations[0]
    await send(database, tenant_id, [(run_id, True, create)])
    for answer in ("first", "second"):
        await send(
            database, tenant_id, [(run_id, False, {**create, "outputs": {answer: 1}, "end_time": None})]
        )
    await send(database, tenant_id, [(run_id, True, {**create, "outputs": {"late": "create"}})])
    row = (await stored(database, tenant_id, run_id))[run_id]
    assert row["outputs"] == '{"second":1}'
