"""What a project's own `@auth.on` handlers make of requests (agent server contract §7)."""

from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, PermissionDeniedError

from storage.assistants import system_assistant_id
from tests.agent_server.conftest import Guarded


async def test_users_see_only_what_is_theirs(guarded: Guarded) -> None:
    async with guarded.sdk("token-dora") as dora, guarded.sdk("token-eve") as eve:
        thread_id = (await dora.threads.create(metadata={"topic": "t", "owner": "eve"}))["thread_id"]
        run = await dora.runs.create(thread_id, "seen", input={})
        await dora.runs.join(thread_id, run["run_id"])
        assistant = await dora.assistants.create("seen", name="mine")
        cron: Any = await dora.crons.create("seen", schedule="0 0 1 1 *")
        assert (await dora.threads.get(thread_id))["metadata"]["owner"] == "dora"
        assert [found["thread_id"] for found in await dora.threads.search()] == [thread_id]
        assert await dora.threads.count() == 1 and await dora.assistants.count() == 1
        assert await eve.threads.search(metadata={"topic": "t"}) == [] and await eve.threads.count() == 0
        assert await eve.assistants.search() == [] and await eve.crons.search() == []
        hidden = [
            eve.threads.get(thread_id),
            eve.threads.get_state(thread_id),
            eve.threads.get_history(thread_id),
            eve.threads.update(thread_id, metadata={"x": 1}),
            eve.threads.copy(thread_id),
            eve.threads.delete(thread_id),
            eve.runs.list(thread_id),
            eve.runs.get(thread_id, run["run_id"]),
            eve.runs.create(thread_id, "seen", input={}),
            eve.runs.create(None, assistant["assistant_id"], input={}),
            eve.runs.create_batch([{"assistant_id": assistant["assistant_id"]}]),
            eve.assistants.get(assistant["assistant_id"]),
            eve.assistants.update(assistant["assistant_id"], name="stolen"),
            eve.crons.update(cron["cron_id"], enabled=False),
            eve.crons.delete(cron["cron_id"]),
            eve.crons.create_for_thread(thread_id, "seen", schedule="0 0 1 1 *"),
        ]
        for call in hidden:
            with pytest.raises(NotFoundError):
                await call
        with pytest.raises(ConflictError):
            await eve.threads.create(thread_id=thread_id, if_exists="do_nothing")
        assert (await eve.runs.wait(None, "seen", input={}))["shown"]["identity"] == "eve"
        await dora.crons.delete(cron["cron_id"])
        await dora.threads.delete(thread_id)


async def test_rules_allow_and_forbid(guarded: Guarded, anonymous: httpx.AsyncClient) -> None:
    async with guarded.sdk("token-reader") as reader:
        thread_id = (await reader.threads.create())["thread_id"]
        with pytest.raises(PermissionDeniedError):
            await reader.threads.delete(thread_id)
        await reader.store.put_item(["reader", "notes"], "k", {"v": 1})
        assert (await reader.store.get_item(["reader", "notes"], "k"))["value"] == {"v": 1}
        for call in (
            reader.store.get_item(["dora", "notes"], "k"),
            reader.store.put_item(["dora"], "k", {}),
            reader.store.search_items([]),
            reader.store.list_namespaces(),
        ):
            with pytest.raises(PermissionDeniedError):
                await call
    headers = {"authorization": "Bearer token-reader"}
    body = {"thread_ids": [thread_id]}
    pruned = await anonymous.post(f"{guarded.url}/threads/prune", json=body, headers=headers)
    assert pruned.status_code == 403
    assert (await anonymous.get(f"{guarded.url}/webhooks/secret", headers=headers)).status_code == 401


async def test_items_of_the_store_lie_where_the_handler_puts_them(
    guarded: Guarded, anonymous: httpx.AsyncClient
) -> None:
    async with guarded.sdk("token-gil") as gil, guarded.sdk("token-hal") as hal:
        await gil.store.put_item(["notes"], "k", {"of": "gil"})
        await hal.store.put_item(["notes"], "k", {"of": "hal"})
        item = await gil.store.get_item(["notes"], "k")
        assert (item["namespace"], item["value"]) == (["gil", "notes"], {"of": "gil"})
        for prefix in ([], ["notes"]):
            found = (await hal.store.search_items(prefix))["items"]
            assert [item["value"] for item in found] == [{"of": "hal"}]
        assert (await hal.store.list_namespaces())["namespaces"] == [["hal", "notes"]]
        assert await hal.store.get_item(["gil", "notes"], "k") is None
    unnamed = {"authorization": "Bearer token-i.j"}
    item_of_one = {"namespace": ["notes"], "key": "k", "value": {}}
    refused = await anonymous.put(f"{guarded.url}/store/items", json=item_of_one, headers=unnamed)
    assert refused.status_code == 422 and "'i.j'" in refused.json()["detail"]
    deleted = await anonymous.request(
        "DELETE",
        f"{guarded.url}/store/items",
        json={"namespace": ["notes"], "key": "k"},
        headers={"authorization": "Bearer token-gil"},
    )
    assert deleted.status_code == 403 and "filter" in deleted.json()["detail"]


async def test_only_the_callers_threads_are_pruned_and_cancelled(
    guarded: Guarded, anonymous: httpx.AsyncClient
) -> None:
    async with guarded.sdk("token-kim") as kim, guarded.sdk("token-leo") as leo:
        threads = [(await user.threads.create())["thread_id"] for user in (kim, leo)]
        runs = [
            await user.runs.create(thread_id, "seen", input={}, after_seconds=3600)
            for user, thread_id in zip((kim, leo), threads, strict=True)
        ]
        headers = {"authorization": "Bearer token-kim"}
        named = {"thread_id": threads[1], "run_ids": [runs[1]["run_id"]]}
        missed = await anonymous.post(f"{guarded.url}/runs/cancel", json=named, headers=headers)
        assert missed.status_code == 404
        cancelled = await anonymous.post(
            f"{guarded.url}/runs/cancel", json={"status": "all"}, headers=headers
        )
        assert cancelled.status_code == 204
        await kim.runs.join(threads[0], runs[0]["run_id"])
        assert (await kim.runs.get(threads[0], runs[0]["run_id"]))["status"] == "interrupted"
        assert (await leo.runs.get(threads[1], runs[1]["run_id"]))["status"] == "pending"
        for strategy in ("keep_latest", "delete"):
            body = {"thread_ids": threads, "strategy": strategy}
            pruned = await anonymous.post(f"{guarded.url}/threads/prune", json=body, headers=headers)
            assert pruned.json() == {"pruned_count": 1}
        assert await kim.threads.count() == 0 and await leo.threads.count() == 1
        await leo.threads.delete(threads[1])


async def _rpc(
    client: httpx.AsyncClient, guarded: Guarded, user: str, path: str, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await client.post(
        f"{guarded.url}{path}", json=body, headers={"authorization": f"Bearer token-{user}"}
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_tools_are_the_callers_assistants(guarded: Guarded, anonymous: httpx.AsyncClient) -> None:
    async with guarded.sdk("token-mia") as mia:
        await mia.assistants.create("seen", name="private")

    async def names(user: str) -> list[str]:
        listed = await _rpc(anonymous, guarded, user, "/mcp", "tools/list", {})
        return [tool["name"] for tool in listed["result"]["tools"]]

    async def call(user: str, tool: str) -> dict[str, Any]:
        return await _rpc(anonymous, guarded, user, "/mcp", "tools/call", {"name": tool, "arguments": {}})

    assert (await names("mia"), await names("ned")) == (["private"], [])
    assert (await call("mia", "private"))["result"]["structuredContent"]["shown"]["identity"] == "mia"
    assert "Unknown tool" in (await call("ned", "private"))["error"]["message"]
    by_graph = (await call("ned", "seen"))["result"]["structuredContent"]
    assert by_graph["shown"]["identity"] == "ned", "everybody may run a graph by its name"
    begun = await _rpc(anonymous, guarded, "ned", "/mcp", "initialize", {"protocolVersion": "2025-06-18"})
    assert "tools" in begun["result"]["capabilities"]


async def test_tasks_of_agents_are_their_callers(guarded: Guarded, anonymous: httpx.AsyncClient) -> None:
    path = f"/a2a/{system_assistant_id('talk')}"

    async def ask(user: str, method: str, **params: Any) -> dict[str, Any]:
        return await _rpc(anonymous, guarded, user, path, method, params)

    def said(**more: str) -> dict[str, Any]:
        return {"role": "user", "messageId": str(uuid4()), "parts": [{"kind": "text", "text": "hi"}], **more}

    task = (await ask("oda", "message/send", message=said()))["result"]
    assert task["artifacts"][0]["parts"][0]["text"] == "Hello oda."
    missing = f"{uuid4()}:{uuid4()}"
    for method in ("tasks/get", "tasks/cancel", "tasks/resubscribe"):
        hidden = (await ask("pat", method, id=task["id"]))["error"]
        unknown = (await ask("pat", method, id=missing))["error"]
        assert (hidden["code"], hidden["message"].replace(task["id"], missing)) == (
            unknown["code"],
            unknown["message"],
        )
    taken = await ask("pat", "message/send", message=said(contextId=task["contextId"]))
    assert taken["error"]["code"] == -32602
    assert (await ask("pat", "tasks/list"))["result"]["totalSize"] == 0
    assert [found["id"] for found in (await ask("oda", "tasks/list"))["result"]["tasks"]] == [task["id"]]
    assert (await ask("oda", "tasks/get", id=task["id"]))["result"]["id"] == task["id"]
    async with guarded.sdk("token-oda") as oda:
        own = await oda.assistants.create("talk")
    card = f"{guarded.url}/.well-known/agent-card.json?assistant_id="
    for user, assistant_id, status in (
        ("oda", own["assistant_id"], 200),
        ("pat", own["assistant_id"], 404),
        ("pat", system_assistant_id("talk"), 200),
    ):
        shown = await anonymous.get(
            f"{card}{assistant_id}", headers={"authorization": f"Bearer token-{user}"}
        )
        assert shown.status_code == status
    path = f"/a2a/{own['assistant_id']}"
    assert "not found" in (await ask("pat", "message/send", message=said()))["error"]["message"]
