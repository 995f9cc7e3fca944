"""One store for clients and graphs, with search by meaning (agent server contract §3.7)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import InternalServerError
from rich.console import Console

from stack.demo.deploying import deploy
from stack.demo.steps import Steps
from storage.database import Database
from tests.conftest import new_workspace
from tests.stacks import Stack

PROJECT = Path(__file__).parent / "memory_project"


@pytest.fixture(scope="module")
async def memory(stack: Stack, database: Database) -> AsyncIterator[LangGraphClient]:
    """The SDK on a deployment whose store is indexed."""
    async with new_workspace(stack, database) as workspace:
        await deploy(Steps(Console(quiet=True)), workspace.client, "memory", PROJECT)
        url = f"{stack.api_url}/deployments/memory"
        async with get_client(url=url, api_key=workspace.api_key) as sdk:
            yield sdk


async def run(memory: LangGraphClient, given: dict[str, Any]) -> Any:
    result: Any = await memory.runs.wait(None, "remember", input=given)
    return result["found"]


async def test_graphs_and_clients_see_the_same_items(memory: LangGraphClient) -> None:
    await memory.store.put_item(["notes", "mine"], "from-client", {"text": "a red cat"})
    found = await run(memory, {"get": "from-client"})
    assert (found["value"], found["namespace"]) == ({"text": "a red cat"}, ["notes", "mine"])
    await run(memory, {"put": {"from-graph": {"text": "two dogs"}}})
    item = await memory.store.get_item(["notes", "mine"], "from-graph")
    assert item["value"] == {"text": "two dogs"}
    assert await run(memory, {}) == [["notes", "mine"]]


async def test_a_query_orders_by_meaning_for_clients_and_graphs(memory: LangGraphClient) -> None:
    for key, text in {"animal": "a dog and a cat", "colour": "green and blue", "number": "one two"}.items():
        await memory.store.put_item(["topics"], key, {"text": text})
    await memory.store.put_item(["topics"], "hidden", {"text": "horse dog cat"}, index=False)
    found = await memory.store.search_items(["topics"], query="my horse", limit=3)
    assert next(item["key"] for item in found["items"]) == "animal"
    scores = [item["score"] for item in found["items"]]
    assert scores == sorted(scores, reverse=True) and all(score is not None for score in scores)
    assert "hidden" not in {item["key"] for item in found["items"]}
    filtered = await memory.store.search_items(["topics"], query="horse", filter={"text": "one two"})
    assert [item["key"] for item in filtered["items"]] == ["number"]
    await run(memory, {"put": {"blue": {"text": "blue"}}})
    assert (await run(memory, {"query": "red"}))[0] == ["blue", ["notes", "mine"]]


async def test_a_replaced_item_is_found_by_its_new_meaning(memory: LangGraphClient) -> None:
    await memory.store.put_item(["turns"], "a", {"text": "cat"})
    await memory.store.put_item(["turns"], "b", {"text": "one"})
    await memory.store.put_item(["turns"], "a", {"text": "blue"})
    await memory.store.put_item(["turns"], "c", {"text": "dog"})
    found = await memory.store.search_items(["turns"], query="horse")
    assert found["items"][0]["key"] == "c"


async def test_the_projects_time_to_live_applies(memory: LangGraphClient, database: Database) -> None:
    await memory.store.put_item(["timed"], "indexed", {"text": "cat"})
    await memory.store.put_item(["timed"], "plain", {"text": "cat"}, index=False)
    await memory.store.put_item(["timed"], "own", {"text": "cat"}, ttl=5)
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT key, ttl_minutes FROM store WHERE prefix LIKE '%.timed'")
        assert {row["key"]: row["ttl_minutes"] for row in await cursor.fetchall()} == {
            "indexed": 60,
            "plain": 60,
            "own": 5,
        }


async def test_an_embedding_that_fails_is_no_server_error_and_stores_nothing(memory: LangGraphClient) -> None:
    with pytest.raises(InternalServerError) as caught:
        await memory.store.put_item(["bad"], "k", {"text": "unembeddable"})
    assert caught.value.response.status_code == 503 and "told to fail" in str(caught.value)
    assert await memory.store.get_item(["bad"], "k") is None
