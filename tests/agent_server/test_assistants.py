"""Assistants with the unmodified SDK (contract §3.2)."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    UnprocessableEntityError,
)

from storage.assistants import system_assistant_id
from tests.agent_server.conftest import Deployment

GRAPHS = ["asking", "counter", "echo", "failing", "nested", "steps"]


async def test_every_graph_has_a_system_assistant(sdk: LangGraphClient) -> None:
    found = await sdk.assistants.search(metadata={"created_by": "system"}, limit=100)
    assert {row["graph_id"]: row["assistant_id"] for row in found} == {
        graph_id: str(system_assistant_id(graph_id)) for graph_id in GRAPHS
    }
    assert {row["name"] for row in found} == set(GRAPHS)


async def test_an_assistant_is_made_read_and_deleted(sdk: LangGraphClient) -> None:
    made = await sdk.assistants.create("echo", name="Mine", description="d", metadata={"a": {"b": 1}})
    assert made["graph_id"] == "echo"
    assert made["version"] == 1
    assert UUID(made["assistant_id"]).version == 4
    assert await sdk.assistants.get(made["assistant_id"]) == made
    assert await sdk.assistants.delete(made["assistant_id"]) is None
    with pytest.raises(NotFoundError):
        await sdk.assistants.get(made["assistant_id"])
    with pytest.raises(NotFoundError):
        await sdk.assistants.delete(made["assistant_id"])


async def test_deleting_answers_204(deployment: Deployment) -> None:
    made = await deployment.sdk.assistants.create("echo")
    answer = await deployment.client.delete(f"/assistants/{made['assistant_id']}")
    assert (answer.status_code, answer.content) == (204, b"")


async def test_defaults_and_reserved_keys(sdk: LangGraphClient) -> None:
    made = await sdk.assistants.create(
        "echo",
        config={"configurable": {"model": "x", "langgraph_auth_user": "me", "__secret": 1}},
        metadata={"run_id": "r", "mine": 1},
    )
    assert made["name"] == "Untitled"
    assert made["config"] == {"configurable": {"model": "x"}}
    assert made["context"] == {"model": "x"}
    assert made["metadata"] == {"mine": 1}
    mirrored = await sdk.assistants.create("echo", context={"greeting": "hi"})
    assert mirrored["config"]["configurable"] == {"greeting": "hi"}


async def test_a_taken_id_is_a_conflict_unless_told_otherwise(sdk: LangGraphClient) -> None:
    assistant_id = str(uuid4())
    made = await sdk.assistants.create("echo", assistant_id=assistant_id)
    with pytest.raises(ConflictError):
        await sdk.assistants.create("steps", assistant_id=assistant_id)
    again = await sdk.assistants.create("steps", assistant_id=assistant_id, if_exists="do_nothing")
    assert again == made


async def test_what_creation_refuses(sdk: LangGraphClient, deployment: Deployment) -> None:
    with pytest.raises(NotFoundError):
        await sdk.assistants.create("no-such-graph")
    with pytest.raises(BadRequestError):
        await sdk.assistants.create("echo", config={"configurable": {"a": 1}}, context={"b": 2})
    with pytest.raises(UnprocessableEntityError):
        await sdk.assistants.create("echo", assistant_id="not-a-uuid")
    for body in (
        {},
        {"graph_id": 3},
        {"graph_id": "echo", "name": "\0"},
        {"graph_id": "echo", "metadata": []},
    ):
        answer = await deployment.client.post("/assistants", json=body)
        assert answer.status_code == 422
        assert isinstance(answer.json()["detail"], str)
    big = {"graph_id": "echo", "metadata": {"a": "x" * 70_000}}
    assert (await deployment.client.post("/assistants", json=big)).status_code == 422


async def test_a_change_is_a_new_version(sdk: LangGraphClient) -> None:
    made = await sdk.assistants.create("echo", metadata={"a": 1, "b": 1}, context={"x": 1})
    changed = await sdk.assistants.update(
        made["assistant_id"], graph_id="steps", metadata={"b": 2}, context={"y": 2}, name="New"
    )
    assert changed["version"] == 2
    assert changed["metadata"] == {"a": 1, "b": 2}
    assert changed["context"] == {"y": 2}
    assert changed["graph_id"] == "steps"
    assert (await sdk.assistants.update(made["assistant_id"]))["version"] == 3
    with pytest.raises(NotFoundError):
        await sdk.assistants.update(made["assistant_id"], graph_id="nope")
    with pytest.raises(NotFoundError):
        await sdk.assistants.update(str(uuid4()), name="x")


async def test_merged_metadata_is_bounded_and_changes_at_once_are_versions_of_their_own(
    sdk: LangGraphClient,
) -> None:
    made = await sdk.assistants.create("echo", metadata={"a": "x" * 40_000})
    with pytest.raises(UnprocessableEntityError):
        await sdk.assistants.update(made["assistant_id"], metadata={"b": "x" * 40_000})
    assert await sdk.assistants.get(made["assistant_id"]) == made
    changed = await asyncio.gather(
        *(sdk.assistants.update(made["assistant_id"], name=f"n{number}") for number in range(8))
    )
    assert sorted(row["version"] for row in changed) == list(range(2, 10))


async def test_versions_and_latest_which_restores_the_graph_too(sdk: LangGraphClient) -> None:
    made = await sdk.assistants.create("echo", name="one", metadata={"v": 1})
    await sdk.assistants.update(made["assistant_id"], graph_id="steps", name="two", metadata={"v": 2})
    versions = await sdk.assistants.get_versions(made["assistant_id"])
    assert [(row["version"], row["name"], row["graph_id"]) for row in versions] == [
        (2, "two", "steps"),
        (1, "one", "echo"),
    ]
    assert "updated_at" not in versions[0]
    assert len(await sdk.assistants.get_versions(made["assistant_id"], metadata={"v": 1})) == 1
    assert len(await sdk.assistants.get_versions(made["assistant_id"], limit=1, offset=1)) == 1
    restored = await sdk.assistants.set_latest(made["assistant_id"], 1)
    assert (restored["version"], restored["name"], restored["graph_id"]) == (1, "one", "echo")
    # Versions are never numbered twice.
    assert (await sdk.assistants.update(made["assistant_id"], name="three"))["version"] == 3
    with pytest.raises(NotFoundError):
        await sdk.assistants.set_latest(made["assistant_id"], 9)


async def test_search_filters_sorts_selects_and_pages(sdk: LangGraphClient, deployment: Deployment) -> None:
    mark = uuid4().hex
    for number in range(3):
        await sdk.assistants.create(
            "steps" if number else "echo",
            name=f"Name {number} {mark}",
            metadata={"mark": mark, "n": {"x": number}},
        )

    async def names(**filters: Any) -> list[str]:
        found = await sdk.assistants.search(**{"metadata": {"mark": mark}, **filters})
        return [row["name"][:6] for row in found]

    assert await names(sort_by="name", sort_order="asc") == ["Name 0", "Name 1", "Name 2"]
    assert await names() == ["Name 2", "Name 1", "Name 0"]
    assert await names(graph_id="echo") == ["Name 0"]
    assert await names(name=f"nAMe 1 {mark}") == ["Name 1"]
    assert await names(metadata={"mark": mark, "n": {"x": 2}}) == ["Name 2"]
    selected = await sdk.assistants.search(metadata={"mark": mark}, select=["name", "version"], limit=1)
    assert list(selected[0]) == ["name", "version"]
    page = await sdk.assistants.search(metadata={"mark": mark}, limit=2, response_format="object")
    assert (len(page["assistants"]), page["next"]) == (2, "2")
    rest = await sdk.assistants.search(metadata={"mark": mark}, limit=2, offset=2, response_format="object")
    assert (len(rest["assistants"]), rest["next"]) == (1, None)
    assert await sdk.assistants.count(metadata={"mark": mark}) == 3
    assert await sdk.assistants.count(metadata={"mark": mark}, graph_id="steps", name="name 2") == 1
    answer = await deployment.client.post("/assistants/search", json={"metadata": {"mark": mark}, "limit": 2})
    assert answer.headers["X-Pagination-Total"] == "3"
    with pytest.raises(NotFoundError):
        await sdk.assistants.search(graph_id="nope")
    for wrong in ({"limit": 0}, {"limit": 1001}, {"offset": -1}, {"sort_by": "x"}, {"select": ["x"]}):
        assert (await deployment.client.post("/assistants/search", json=wrong)).status_code == 422


async def test_schemas(sdk: LangGraphClient) -> None:
    schemas = await sdk.assistants.get_schemas(str(system_assistant_id("counter")))
    assert schemas["graph_id"] == "counter"
    assert set(schemas["input_schema"]["properties"]) == {"inputs", "count"}
    assert set(schemas["state_schema"]["properties"]) == {"inputs", "count"}
    assert set(schemas["context_schema"]["properties"]) == {"greeting"}
    assert schemas.keys() == {
        "graph_id",
        "input_schema",
        "output_schema",
        "state_schema",
        "config_schema",
        "context_schema",
    }


async def test_drawings(sdk: LangGraphClient, deployment: Deployment) -> None:
    def ids(drawing: Any) -> list[str]:
        return [node["id"] for node in drawing["nodes"]]

    by_name = await sdk.assistants.get_graph("nested")
    assert ids(by_name) == ["__start__", "middle", "__end__"]
    assert {"source": "__start__", "target": "middle"}.items() <= by_name["edges"][0].items()
    by_id = await sdk.assistants.get_graph(str(system_assistant_id("nested")))
    assert by_id == by_name
    one = await sdk.assistants.get_graph("nested", xray=1)
    assert "middle:inner" in ids(one)
    deep = await sdk.assistants.get_graph("nested", xray=True)
    assert "middle:inner:ask" in ids(deep)
    assert await sdk.assistants.get_graph("nested", xray=99) == deep
    for wrong in ("x", "-1", "1.5"):
        answer = await deployment.client.get("/assistants/nested/graph", params={"xray": wrong})
        assert answer.status_code == 422
    with pytest.raises(NotFoundError):
        await sdk.assistants.get_graph("nope")


async def test_subgraphs(sdk: LangGraphClient) -> None:
    assistant_id = str(system_assistant_id("nested"))
    assert list(await sdk.assistants.get_subgraphs(assistant_id)) == ["middle"]
    deep = await sdk.assistants.get_subgraphs(assistant_id, recurse=True)
    assert sorted(deep) == ["middle", "middle|inner"]
    assert "question" in deep["middle"]["input_schema"]["properties"]
    assert list(await sdk.assistants.get_subgraphs(assistant_id, "middle|inner")) == ["middle|inner"]
    assert await sdk.assistants.get_subgraphs(assistant_id, "unknown") == {}


async def test_ids_that_are_no_uuids_are_refused(deployment: Deployment) -> None:
    for path in ("", "/schemas", "/subgraphs"):
        answer = await deployment.client.get(f"/assistants/echo{path}")
        assert answer.status_code == 422
        assert "must be a UUID" in answer.json()["detail"]


async def test_deleting_an_assistant_with_its_threads(sdk: LangGraphClient) -> None:
    made = await sdk.assistants.create("counter")
    thread, other = await sdk.threads.create(), await sdk.threads.create()
    await sdk.runs.wait(thread["thread_id"], made["assistant_id"], input={"inputs": ["a"]})
    await sdk.runs.wait(other["thread_id"], "counter", input={"inputs": ["a"]})
    await sdk.assistants.delete(made["assistant_id"], delete_threads=True)
    with pytest.raises(NotFoundError):
        await sdk.threads.get(thread["thread_id"])
    assert await sdk.threads.get(other["thread_id"])


async def test_the_assistant_of_a_graph_cannot_be_deleted(sdk: LangGraphClient) -> None:
    with pytest.raises(ConflictError):
        await sdk.assistants.delete(str(system_assistant_id("echo")))


async def test_another_workspace_sees_no_assistant(sdk: LangGraphClient, stranger: LangGraphClient) -> None:
    made = await sdk.assistants.create("echo")
    assistant_id = made["assistant_id"]
    for call in (
        stranger.assistants.get(assistant_id),
        stranger.assistants.update(assistant_id, name="x"),
        stranger.assistants.delete(assistant_id),
        stranger.assistants.get_versions(assistant_id),
        stranger.assistants.set_latest(assistant_id, 1),
        stranger.assistants.get_schemas(assistant_id),
        stranger.assistants.get_graph(assistant_id),
        stranger.assistants.get_subgraphs(assistant_id),
    ):
        with pytest.raises(NotFoundError):
            await call
    assert await stranger.assistants.count() == 1
    assert await sdk.assistants.get(assistant_id) == made
