"""State updates next to runs, to one another, and with nobody there to execute them."""

import asyncio
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError

from storage.database import Database
from tests.agent_server.bare_deployment import bare_deployment
from tests.agent_server.conftest import Deployment
from tests.conftest import Workspace


async def _remembered(database: Database, thread_id: str) -> int:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT count(*) AS n FROM state_updates WHERE thread_id = %s::uuid", (thread_id,)
        )
        row = await cursor.fetchone()
    return row["n"] if row else -1


async def test_without_a_worker_nothing_happens_and_that_is_said(
    database: Database, workspace: Workspace
) -> None:
    """Neither to a thread nor to a new one; and runs are accepted all the while."""
    async with bare_deployment(database, workspace, ["counter"]) as deployed:
        thread, other = [
            await deployed.sdk.threads.create(metadata={"graph_id": "counter"}) for _ in range(2)
        ]

        async def update(thread_id: str) -> httpx.Response:
            address = f"{deployed.url}/threads/{thread_id}/state"
            return await workspace.client.post(address, json={"values": {"inputs": ["x"]}})

        async def create() -> httpx.Response:
            steps = [{"updates": [{"values": {"inputs": ["x"]}, "as_node": "__start__"}]}]
            body = {"metadata": {"graph_id": "counter"}, "supersteps": steps}
            return await workspace.client.post(f"{deployed.url}/threads", json=body)

        async def run() -> None:
            async with asyncio.timeout(20):
                while not await _remembered(database, other["thread_id"]):
                    assert not updates[1].done()
            created = await deployed.sdk.runs.create(other["thread_id"], "counter", input={})
            assert not updates[1].done(), "the run was accepted only after the update had ended"
            assert created["status"] == "pending"

        updates = [asyncio.create_task(update(known["thread_id"])) for known in (thread, other)]
        created, *answers, _ = await asyncio.gather(create(), *updates, run())
        for answer in (created, *answers):
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) >= 1
            assert "not changed" in answer.json()["detail"]
        after = await deployed.sdk.threads.get(thread["thread_id"])
        assert {**after, "updated_at": thread["updated_at"]} == thread
        assert await _remembered(database, thread["thread_id"]) == 0
        assert await deployed.sdk.threads.count() == 2
        assert (await deployed.sdk.threads.get(other["thread_id"]))["status"] == "busy"
        await deployed.sdk.threads.delete(other["thread_id"])


async def test_updates_and_runs_of_one_thread_lose_nothing(sdk: LangGraphClient, database: Database) -> None:
    """What was acknowledged is in the state exactly once, what was refused is not in it at all."""
    thread_id = (await sdk.threads.create(metadata={"graph_id": "counter"}))["thread_id"]
    accepted: list[str] = []

    async def update(name: str) -> None:
        try:
            await sdk.threads.update_state(thread_id, {"inputs": [name]}, as_node="count")
        except ConflictError:
            return
        accepted.append(name)

    async def run(name: str) -> None:
        await sdk.runs.wait(thread_id, "counter", input={"inputs": [name]})
        accepted.append(name)

    await asyncio.gather(*(update(f"before{number}") for number in range(6)))
    assert len(accepted) == 6
    mixed: list[Any] = [update(f"update{number}") for number in range(6)]
    mixed[3:3] = [run(f"run{number}") for number in range(4)]
    await asyncio.gather(*mixed)
    state = await sdk.threads.get_state(thread_id)
    assert sorted(state["values"]["inputs"]) == sorted(accepted)
    assert {f"run{number}" for number in range(4)} <= set(accepted)
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["values"]) == ("idle", state["values"])
    assert await _remembered(database, thread_id) == 0


async def test_an_update_answers_an_interrupt_as_its_node(sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(thread_id, "asking", input={"question": "why?"})
    await sdk.threads.update_state(thread_id, {"answer": "by hand"}, as_node="ask")
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["interrupts"]) == ("idle", {})
    assert thread["values"] == {"question": "why?", "answer": "by hand"}


async def test_a_failed_thread_can_be_repaired(sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(thread_id, "failing", input={"done": []}, raise_error=False)
    await sdk.threads.update_state(thread_id, {"done": ["repaired"]}, as_node="fail")
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["error"]) == ("idle", None)
    assert thread["values"] == {"done": ["first", "repaired"]}


async def test_a_message_is_replaced_by_its_id(sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(
        thread_id, "echo", input={"messages": [{"role": "user", "content": "hi", "id": "m1"}]}
    )
    edited = {"messages": [{"role": "user", "content": "hello", "id": "m1"}]}
    await sdk.threads.update_state(thread_id, edited, as_node="answer")
    state = await sdk.threads.get_state(thread_id)
    assert [message["content"] for message in state["values"]["messages"]] == ["hello", "echo: hi"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_a_413(deployment: Deployment, chunked: bool) -> None:
    big = b'{"metadata": {"a": "' + b"x" * (26 * 1024 * 1024) + b'"}}'

    async def pieces() -> Any:
        for start in range(0, len(big), 1 << 20):
            yield big[start : start + (1 << 20)]

    try:
        answer = await deployment.client.post("/threads", content=pieces() if chunked else big)
    except (httpx.WriteError, httpx.ReadError):
        pytest.skip("the server closed the connection before the client had sent everything")
    assert answer.status_code == 413
    assert "too large" in answer.json()["detail"]
