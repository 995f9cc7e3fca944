"""The store with the unmodified SDK (agent server contract §3.7); inside graphs: test_store_in_graphs.py."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from storage.database import Database
from storage.store import StoreItems, sweep_expired_items
from tests.agent_server.bare_deployment import BareDeployment, bare_deployment
from tests.conftest import Workspace

GRAPH = "agent"


@pytest.fixture
async def deployment(database: Database, workspace: Workspace) -> AsyncIterator[BareDeployment]:
    async with bare_deployment(database, workspace, [GRAPH]) as deployment:
        yield deployment


async def test_an_item_is_stored_read_replaced_and_deleted(deployment: BareDeployment) -> None:
    store = deployment.sdk.store
    await store.put_item(["users", "1"], "color", {"favourite": "red"})
    first = await store.get_item(["users", "1"], "color")
    assert (first["namespace"], first["key"], first["value"]) == (
        ["users", "1"],
        "color",
        {"favourite": "red"},
    )
    await store.put_item(["users", "1"], "color", {"favourite": "blue"})
    second = await store.get_item(["users", "1"], "color")
    assert second["value"] == {"favourite": "blue"}
    assert second["created_at"] == first["created_at"] and second["updated_at"] > first["updated_at"]
    await store.delete_item(["users", "1"], "color")
    assert await store.get_item(["users", "1"], "color") is None
    await store.delete_item(["users", "1"], "color")


async def test_search_agrees_with_langgraphs_own_store(deployment: BareDeployment) -> None:
    """Its in-memory store says what filters and namespaces mean."""
    oracle = InMemoryStore()
    items: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
        (("a",), "1", {"n": 1, "tag": "x"}),
        (("a", "b"), "2", {"n": 9, "tag": "y"}),
        (("a", "b"), "3", {"n": 10, "tag": "x", "deep": {"p": [1]}}),
        (("ab",), "4", {"n": 100, "tag": "x"}),
        (("a_b", "c%"), "5", {"n": -1.5}),
    ]
    for namespace, key, value in items:
        oracle.put(namespace, key, value)
        await deployment.sdk.store.put_item(list(namespace), key, value)
    filters: list[dict[str, Any] | None] = [
        None,
        {"tag": "x"},
        {"n": 10},
        {"n": {"$gt": 9}},
        {"n": {"$gte": 9, "$lt": 100}},
        {"n": {"$lte": 1}},
        {"tag": {"$ne": "x"}},
        {"tag": {"$eq": "x"}, "n": {"$gt": 5}},
        {"deep": {"p": [1]}},
        {"absent": 1},
    ]
    for namespace in [(), ("a",), ("a", "b"), ("ab",), ("a_b",), ("axb",), ("a_b", "c%")]:
        for wanted in filters:
            found = await deployment.sdk.store.search_items(list(namespace), filter=wanted, limit=100)
            expected = {item.key for item in oracle.search(namespace, filter=wanted, limit=100)}
            assert {item["key"] for item in found["items"]} == expected, (namespace, wanted)


async def test_search_pages_newest_first(deployment: BareDeployment) -> None:
    for number in range(5):
        await deployment.sdk.store.put_item(["n"], str(number), {"number": number})
    pages = [await deployment.sdk.store.search_items(["n"], limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [item["key"] for page in pages for item in page["items"]] == ["4", "3", "2", "1", "0"]


async def test_namespaces_are_listed_by_prefix_suffix_and_depth(deployment: BareDeployment) -> None:
    store = deployment.sdk.store
    for namespace in (["a", "b", "c"], ["a", "b", "d"], ["a", "x"], ["z"]):
        await store.put_item(namespace, "k", {})

    async def listed(**options: Any) -> list[list[str]]:
        return (await store.list_namespaces(**options))["namespaces"]

    assert await listed() == [["a", "b", "c"], ["a", "b", "d"], ["a", "x"], ["z"]]
    assert await listed(max_depth=2) == [["a", "b"], ["a", "x"], ["z"]]
    assert await listed(prefix=["a", "b"]) == [["a", "b", "c"], ["a", "b", "d"]]
    assert await listed(suffix=["d"]) == [["a", "b", "d"]]
    assert await listed(prefix=["*", "x"]) == [["a", "x"]]
    assert await listed(limit=1, offset=1) == [["a", "b", "d"]]


async def test_an_items_time_ends_and_reading_lets_it_begin_anew(
    deployment: BareDeployment, database: Database
) -> None:
    store = deployment.sdk.store
    await store.put_item(["t"], "short", {}, ttl=1)
    await store.put_item(["t"], "ever", {})

    async def seconds_left() -> float:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "SELECT extract(epoch FROM expires_at - now())::float AS left FROM store"
                " WHERE key = 'short' AND deployment_id = %s",
                (deployment.scope.deployment_id,),
            )
            row = await cursor.fetchone()
        assert row is not None
        return float(row["left"])

    async def age(seconds: int) -> None:
        async with database.connection() as connection:
            await connection.execute(
                "UPDATE store SET expires_at = expires_at - make_interval(secs => %s)"
                " WHERE deployment_id = %s AND expires_at IS NOT NULL",
                (seconds, deployment.scope.deployment_id),
            )

    await age(30)
    await store.get_item(["t"], "short", refresh_ttl=False)
    assert await seconds_left() < 31
    await store.get_item(["t"], "short")
    assert await seconds_left() > 55
    await age(30)
    await store.search_items(["t"], refresh_ttl=False)
    assert await seconds_left() < 31
    await store.search_items(["t"])
    assert await seconds_left() > 55
    await age(61)
    assert await store.get_item(["t"], "short") is None
    assert [item["key"] for item in (await store.search_items(["t"]))["items"]] == ["ever"]
    async with database.connection() as connection:
        await sweep_expired_items(connection, 1_000)
        cursor = await connection.execute(
            "SELECT key FROM store WHERE deployment_id = %s", (deployment.scope.deployment_id,)
        )
        assert [row["key"] for row in await cursor.fetchall()] == ["ever"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"namespace": [], "key": "k", "value": {}}, 400),
        ({"namespace": ["a.b"], "key": "k", "value": {}}, 422),
        ({"namespace": [""], "key": "k", "value": {}}, 422),
        ({"namespace": ["a\0"], "key": "k", "value": {}}, 422),
        ({"namespace": ["a"] * 65, "key": "k", "value": {}}, 422),
        ({"namespace": ["a" * 1025], "key": "k", "value": {}}, 422),
        ({"namespace": ["a"], "key": "", "value": {}}, 422),
        ({"namespace": ["a"], "key": "k" * 1025, "value": {}}, 422),
        ({"namespace": ["a"], "key": "k\0", "value": {}}, 422),
        ({"namespace": ["a"], "key": "k", "value": {"t": "\0"}}, 422),
        ({"namespace": ["a"], "key": "k", "value": {"t": "x" * 1024 * 1024}}, 422),
        ({"namespace": ["a"], "key": "k", "value": [1]}, 422),
        ({"namespace": ["a"], "key": "k", "value": {}, "ttl": 0}, 422),
        ({"namespace": ["a"], "key": "k", "value": {}, "index": True}, 422),
        ({"namespace": ["a"], "key": "k"}, 422),
    ],
)
async def test_bad_items_are_refused_and_change_nothing(
    deployment: BareDeployment, workspace: Workspace, body: dict[str, Any], status: int
) -> None:
    answer = await workspace.client.put(f"{deployment.url}/store/items", json=body)
    assert answer.status_code == status and isinstance(answer.json()["detail"], str)
    assert (await deployment.sdk.store.list_namespaces())["namespaces"] == []


async def test_the_longest_namespace_and_key_can_be_stored(deployment: BareDeployment) -> None:
    namespace, key = ["é" * 512], "k" * 1024
    await deployment.sdk.store.put_item(namespace, key, {"v": 1})
    assert (await deployment.sdk.store.get_item(namespace, key))["value"] == {"v": 1}


@pytest.mark.parametrize(
    "search",
    [
        {"filter": {"n": {"$near": 1}}},
        {"filter": {"n": {"$gt": [1]}}},
        {"filter": {"n": {"$gt": 1, "x": 2}}},
        {"limit": 0},
        {"limit": 1001},
        {"offset": -1},
        {"namespace_prefix": ["a.b"]},
    ],
)
async def test_bad_searches_are_refused(
    deployment: BareDeployment, workspace: Workspace, search: dict[str, Any]
) -> None:
    answer = await workspace.client.post(f"{deployment.url}/store/items/search", json=search)
    assert answer.status_code == 422 and isinstance(answer.json()["detail"], str)


async def test_reading_without_key_or_namespace_is_refused(
    deployment: BareDeployment, workspace: Workspace
) -> None:
    url = f"{deployment.url}/store/items"
    assert (await workspace.client.get(url, params={"namespace": "a"})).status_code == 400
    assert (await workspace.client.get(url, params={"key": "k"})).status_code == 400
    assert (await workspace.client.get(url, params={"key": "k", "namespace": "a..b"})).status_code == 422
    everything = await workspace.client.post(f"{deployment.url}/store/items/search", json={})
    assert everything.json() == {"items": []}


async def test_deployments_do_not_see_each_others_items(
    deployment: BareDeployment, database: Database, workspace: Workspace, other_workspace: Workspace
) -> None:
    await deployment.sdk.store.put_item(["shared"], "k", {"of": "first"})
    for owner in (workspace, other_workspace):
        async with bare_deployment(database, owner, [GRAPH]) as other:
            assert await other.sdk.store.get_item(["shared"], "k") is None
            await other.sdk.store.put_item(["shared"], "k", {"of": "other"})
            assert len((await other.sdk.store.search_items([]))["items"]) == 1
    assert (await deployment.sdk.store.get_item(["shared"], "k"))["value"] == {"of": "first"}
    stranger = await other_workspace.client.get(
        f"{deployment.url}/store/items", params={"key": "k", "namespace": "shared"}
    )
    assert stranger.status_code == 404


async def test_a_worker_role_is_held_to_its_deployments_items(
    deployment: BareDeployment, database: Database, other_workspace: Workspace
) -> None:
    """As a revision worker's role sees the table: only its own rows, and no way to write another's."""
    role = f"slipway_worker_{deployment.scope.deployment_id.hex}"
    await deployment.sdk.store.put_item(["mine"], "k", {})
    async with bare_deployment(database, other_workspace, [GRAPH]) as other:
        await other.sdk.store.put_item(["theirs"], "k", {})
        async with database.transaction() as connection:
            await connection.execute(f'CREATE ROLE "{role}" IN ROLE slipway_workers'.encode())
            await connection.execute(f'GRANT "{role}" TO current_user WITH SET TRUE'.encode())
            await connection.execute(f'SET LOCAL ROLE "{role}"'.encode())
            rows = await (await connection.execute("SELECT prefix FROM store")).fetchall()
            assert [row["prefix"] for row in rows] == [f"{deployment.scope.deployment_id}.mine"]
            with pytest.raises(Exception, match="row-level security"):
                async with connection.transaction():
                    await connection.execute(
                        "INSERT INTO store (prefix, key, value) VALUES (%s, 'k', '{}')",
                        (f"{other.scope.deployment_id}.planted",),
                    )
            await connection.execute("RESET ROLE")
            await connection.execute(f'DROP ROLE "{role}"'.encode())


async def test_concurrent_writers_of_one_key_all_succeed(
    deployment: BareDeployment, database: Database
) -> None:
    async def write(number: int) -> None:
        await deployment.sdk.store.put_item(["race"], "k", {"number": number})

    await asyncio.gather(*(write(number) for number in range(20)))
    async with database.connection() as connection:
        row = await StoreItems(connection, deployment.scope).get(["race"], "k", refresh_ttl=False)
    assert row is not None and row["value"]["number"] in range(20)
