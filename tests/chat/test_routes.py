"""Shapes, authentication and refusals of the routes under /api/threads (streaming contract §2)."""

import asyncio
import json
import time
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from storage.database import Database
from storage.tenancy import create_key, create_tenant
from tests.stacks import Stack

DEADLINE_SECONDS = 60.0


async def _run(chat: httpx.AsyncClient, thread_id: str, text: str) -> str:
    """Start a run as the page does; returns its id."""
    message = {"type": "human", "content": text, "id": str(uuid4())}
    params = {"input": {"messages": [message]}, "assistant_id": "_", "config": {}}
    response = await chat.post(
        f"/{thread_id}/commands", json={"id": 7, "method": "run.start", "params": params}
    )
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["type"] == "success" and answer["id"] == 7, answer
    return str(answer["result"]["run_id"])


async def _until_ended(chat: httpx.AsyncClient, thread_id: str, run_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        activity: dict[str, Any] = (await chat.get(f"/{thread_id}/activity")).json()
        if activity["runId"] == run_id and activity["runStatus"] not in ("pending", "running"):
            return activity
        await asyncio.sleep(0.1)
    raise AssertionError(f"Run {run_id} did not end: {activity}")


async def test_bootstrap_then_turn_then_list_then_delete(chat: httpx.AsyncClient) -> None:
    thread_id = str(uuid4())
    missing = await chat.get(f"/{thread_id}/state")
    assert missing.status_code == 404
    assert missing.json() == {"error": "not_found", "message": f"Thread {thread_id} not found"}
    assert (await chat.post(f"/{thread_id}/history", json={"limit": 20})).status_code == 404

    begun = await chat.post(f"/{thread_id}/state", json={"values": {"messages": []}})
    assert begun.status_code == 200
    assert begun.json()["values"] == {"messages": []} and begun.json()["next"]
    assert (await chat.get(f"/{thread_id}/state")).json() == begun.json()

    run_id = await _run(chat, thread_id, "compute 6 * 7")
    assert (await _until_ended(chat, thread_id, run_id))["runStatus"] == "success"
    state = (await chat.get(f"/{thread_id}/state")).json()
    assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai", "tool", "ai"]
    assert "42" in json.dumps(state["values"]["messages"][-1]["content"])
    assert state["next"] == [] and state["checkpoint"]["checkpoint_id"]

    history = (await chat.post(f"/{thread_id}/history", json={"limit": 3})).json()
    assert len(history) == 3 and history[0]["checkpoint"] == state["checkpoint"]

    listed = {item["id"]: item for item in (await chat.get("")).json()}
    assert set(listed[thread_id]) == {"id", "title", "updatedAt"}
    assert listed[thread_id]["title"] == "compute 6 * 7"

    assert (await chat.delete(f"/{thread_id}")).status_code == 204
    assert (await chat.delete(f"/{thread_id}")).status_code == 204
    assert (await chat.get(f"/{thread_id}/state")).status_code == 404
    assert thread_id not in {item["id"] for item in (await chat.get("")).json()}


async def test_state_can_be_written_after_a_turn(chat: httpx.AsyncClient) -> None:
    thread_id = str(uuid4())
    await _until_ended(chat, thread_id, await _run(chat, thread_id, "hello"))
    written = await chat.post(
        f"/{thread_id}/state", json={"values": {"messages": [{"type": "ai", "content": "noted"}]}}
    )
    assert written.status_code == 200, written.text
    assert written.json()["values"]["messages"][-1]["content"] == "noted"
    refused = await chat.post(f"/{thread_id}/state", json={"values": {"messages": []}, "as_node": "nobody"})
    assert refused.status_code == 422
    assert refused.json()["error"] == "invalid_state_update"


async def test_deleting_a_thread_cancels_its_run(chat: httpx.AsyncClient) -> None:
    thread_id = str(uuid4())
    await _run(chat, thread_id, "count to 2000")
    assert (await chat.delete(f"/{thread_id}")).status_code == 204
    assert (await chat.get(f"/{thread_id}/activity")).status_code == 404
    again = await _run(chat, thread_id, "compute 2 + 2")
    assert (await _until_ended(chat, thread_id, again))["runStatus"] == "success"
    messages = (await chat.get(f"/{thread_id}/state")).json()["values"]["messages"]
    assert messages[0]["content"] == "compute 2 + 2"


async def test_a_thread_whose_run_has_written_nothing_yet_is_active(chat: httpx.AsyncClient) -> None:
    """A page that is opened or reloaded in mid-run attaches to the run because `next` is not empty."""
    thread_id = str(uuid4())
    await _until_ended(chat, thread_id, await _run(chat, thread_id, "hello"))
    await _run(chat, thread_id, "count to 300")
    state = (await chat.get(f"/{thread_id}/state")).json()
    assert state["next"]


async def test_unknown_commands_and_broken_bodies_are_refused(chat: httpx.AsyncClient) -> None:
    thread_id = str(uuid4())
    unknown = await chat.post(f"/{thread_id}/commands", json={"id": 1, "method": "dance", "params": {}})
    assert (unknown.status_code, unknown.json()["type"]) == (200, "error")
    assert unknown.json()["error"] == "unknown_command"
    for body in (b"{", b"[]", b'{"method": 5}', b"\xff"):
        response = await chat.post(f"/{thread_id}/commands", content=body)
        assert response.status_code in (400, 422), (body, response.text)
    assert (await chat.get("/not-a-uuid/state")).status_code == 422
    assert (await chat.post(f"/{thread_id}/history", json={"limit": 0})).status_code == 422
    assert (await chat.get(f"/{thread_id}/state")).status_code == 404


async def test_a_key_or_a_session_or_this_machine(chat_stack: Stack, chat: httpx.AsyncClient) -> None:
    assert (await chat.get("")).status_code == 200
    assert (await chat.get("", headers={"x-api-key": chat_stack.api_key})).status_code == 200
    assert (await chat.get("", headers={"authorization": f"Bearer {chat_stack.api_key}"})).status_code == 200
    assert (await chat.get("", headers={"x-api-key": "slw_wrong"})).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"host": "elsewhere.example"}, 401),
    ],
)
async def test_other_sites_are_refused_without_a_key(
    chat: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    """A page of another site in the same browser, also one whose name was made to resolve to this machine."""
    thread_id = str(uuid4())
    for method, path in (("GET", ""), ("DELETE", f"/{thread_id}"), ("POST", f"/{thread_id}/commands")):
        assert (await chat.request(method, path, headers=headers)).status_code == status


async def test_signing_in_with_a_key_sets_a_cookie_that_scripts_cannot_read(chat_stack: Stack) -> None:
    host = {"host": "chat.example"}  # a name for which nobody is let in without a key
    async with httpx.AsyncClient(base_url=chat_stack.api_url, trust_env=False) as client:
        assert (await client.get("/api/threads", headers=host)).status_code == 401
        refused = await client.post("/chat/session", json={"key": "slw_wrong"}, headers=host)
        assert refused.status_code == 401 and "set-cookie" not in refused.headers
        signed = await client.post("/chat/session", json={"key": chat_stack.api_key}, headers=host)
        assert signed.status_code == 204
        cookie = signed.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie
        assert chat_stack.api_key not in cookie
        session = {**host, "cookie": cookie.split(";")[0]}
        assert (await client.get("/api/threads", headers=session)).status_code == 200
        stolen = {**session, "origin": "http://elsewhere.example"}
        assert (await client.get("/api/threads", headers=stolen)).status_code == 403
        forged = {**host, "cookie": "slipway_chat=gAAAAA"}
        assert (await client.get("/api/threads", headers=forged)).status_code == 401


async def test_a_printed_link_signs_in(chat_stack: Stack) -> None:
    link = chat_stack.slipway("chat-link").stdout.strip()
    assert link.startswith(f"{chat_stack.api_url}/chat?link=")
    async with httpx.AsyncClient(trust_env=False) as client:
        opened = await client.get(link)
        assert opened.status_code == 303 and opened.headers["location"] == "/chat"
        assert "HttpOnly" in opened.headers["set-cookie"]
        # A link is no session: it cannot be put into the cookie.
        token = {"cookie": f"slipway_chat={link.partition('link=')[2]}", "host": "chat.example"}
        assert (await client.get(f"{chat_stack.api_url}/api/threads", headers=token)).status_code == 401


async def test_another_workspace_reaches_its_own_chat_only(
    chat: httpx.AsyncClient, chat_stack: Stack
) -> None:
    thread_id = str(uuid4())
    await _until_ended(chat, thread_id, await _run(chat, thread_id, "hello"))
    async with Database(chat_stack.database_url, 2) as database, database.transaction() as connection:
        tenant = await create_tenant(connection, "other")
        key = {"x-api-key": await create_key(connection, tenant.tenant_id, "other")}
    # It has no deployment of the chat's name; had it one, that would be another one.
    for path in ("", f"/{thread_id}/state", f"/{thread_id}/activity"):
        refused = await chat.get(path, headers=key)
        assert refused.status_code == 503 and "not deployed" in refused.json()["message"]
    assert (await chat.delete(f"/{thread_id}", headers=key)).status_code == 503
    assert (await chat.get(f"/{thread_id}/state")).status_code == 200


async def test_the_page_may_load_nothing_from_elsewhere(chat_stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=chat_stack.api_url, trust_env=False) as client:
        page = await client.get("/chat")
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert (await client.get("/chat/assets/..%2Findex.html")).status_code == 404
        assert (await client.get(f"/chat/{uuid4()}")).status_code == 200


async def test_commands_and_events_over_one_websocket(chat_stack: Stack) -> None:
    address = chat_stack.api_url.replace("http", "ws", 1) + f"/api/threads/{uuid4()}/stream"
    subscribe = {"id": 1, "method": "subscription.subscribe", "params": {"channels": ["lifecycle"]}}
    message = {"type": "human", "content": "compute 1 + 1"}
    run = {"id": 2, "method": "run.start", "params": {"assistant_id": "_", "input": {"messages": [message]}}}
    async with connect(address, proxy=None) as socket, asyncio.timeout(DEADLINE_SECONDS):
        await socket.send(json.dumps(subscribe))
        await socket.send(json.dumps(run))
        frames = []
        while not frames or not _is_root_end(frames[-1]):
            frames.append(json.loads(await socket.recv()))
    assert [frame["type"] for frame in frames if frame["type"] != "event"] == ["success", "success"]
    assert frames[-1]["params"]["data"]["event"] == "completed"
    with pytest.raises(InvalidStatus):
        async with connect(address, proxy=None, origin=Origin("http://elsewhere.example")):
            pass


def _is_root_end(frame: dict[str, Any]) -> bool:
    params = frame.get("params", {})
    ended = ("completed", "failed", "interrupted")
    return params.get("namespace") == [] and params.get("data", {}).get("event") in ended
