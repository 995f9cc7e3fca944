"""A2A with the official client, and both dialects on the wire (agent server contract §3.8)."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    TaskState,
)

from storage.assistants import system_assistant_id
from storage.database import Database
from tests.agent_server.bare_deployment import bare_deployment
from tests.agent_server.conftest import Deployment
from tests.conftest import Workspace

ECHO = system_assistant_id("echo")
CARD = "/.well-known/agent-card.json"


def sent(text: str, context_id: str = "") -> SendMessageRequest:
    message = Message(
        role=Role.ROLE_USER, message_id=str(uuid4()), context_id=context_id, parts=[Part(text=text)]
    )
    return SendMessageRequest(message=message)


@pytest.fixture(params=[True, False], ids=["streaming", "blocking"])
async def agent(request: pytest.FixtureRequest, deployment: Deployment) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(
        headers={"X-Api-Key": deployment.api_key}, timeout=60, trust_env=False
    ) as http:
        factory = ClientFactory(ClientConfig(streaming=request.param, httpx_client=http))
        client = await factory.create_from_url(
            deployment.url, relative_card_path=f"{CARD}?assistant_id={ECHO}"
        )
        yield client


async def spoken(agent: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [event async for event in agent.send_message(request)]


async def test_the_official_client_talks_over_several_turns(agent: Client) -> None:
    first = await spoken(agent, sent("hello"))
    task_id, context_id = _ids(first)
    task = await agent.get_task(GetTaskRequest(id=task_id))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert task.artifacts[0].parts[0].text == "echo: hello"
    assert [message.parts[0].text for message in task.history] == ["hello", "echo: hello"]
    second_id, second_context = _ids(await spoken(agent, sent("again", context_id)))
    assert second_context == context_id and second_id != task_id
    task = await agent.get_task(GetTaskRequest(id=second_id, history_length=2))
    assert [message.parts[0].text for message in task.history] == ["again", "echo: again"]
    earlier = await agent.get_task(GetTaskRequest(id=task_id))
    assert earlier.artifacts[0].parts[0].text == "echo: hello", "a later turn does not change an earlier task"
    listed = await agent.list_tasks(ListTasksRequest(context_id=context_id, page_size=1))
    assert [found.id for found in listed.tasks] == [second_id] and listed.total_size == 2
    rest = await agent.list_tasks(
        ListTasksRequest(context_id=context_id, page_size=1, page_token=listed.next_page_token)
    )
    assert [found.id for found in rest.tasks] == [task_id] and rest.next_page_token == ""


async def test_the_old_dialect_answers_in_its_own_words(deployment: Deployment) -> None:
    answer = await rpc(deployment.client, "message/send", {"message": old_message("hi")})
    task = answer["result"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "echo: hi"}]
    thread_id, run_id = task["id"].split(":")
    assert task["contextId"] == thread_id
    assert (await deployment.sdk.runs.get(thread_id, run_id))["status"] == "success"
    again = (await rpc(deployment.client, "tasks/get", {"id": task["id"]}))["result"]
    assert again == task
    error = (await rpc(deployment.client, "tasks/cancel", {"id": task["id"]}))["error"]
    assert error["code"] == -32002


async def test_a_stream_begins_with_the_task_and_ends_with_its_final_status(deployment: Deployment) -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "message/stream", "params": {"message": old_message("hi")}}
    answer = await deployment.client.post(f"/a2a/{ECHO}", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [
        orjson.loads(line.removeprefix("data: "))["result"]
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]
    assert events[0]["kind"] == "task" and events[0]["status"]["state"] == "submitted"
    assert [event["kind"] for event in events[1:]][-2:] == ["artifact-update", "status-update"]
    assert events[-2]["lastChunk"] is True and events[-2]["artifact"]["parts"][0]["text"] == "echo: hi"
    assert events[-1]["final"] is True and events[-1]["status"]["state"] == "completed"
    assert all(not event["final"] for event in events[1:-2])


async def test_a_waiting_task_is_canceled(database: Database, workspace: Workspace) -> None:
    async with bare_deployment(database, workspace, ["echo"]) as bare:
        url = f"{bare.url}/a2a/{ECHO}"
        configuration = {"returnImmediately": True}
        params = {"message": {**old_message("x"), "role": "ROLE_USER"}, "configuration": configuration}
        task = (await post(workspace.client, url, "SendMessage", params))["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
        canceled = (await post(workspace.client, url, "CancelTask", {"id": task["id"]}))["result"]
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"nonsense", -32700),
        (b"[]", -32600),
        (b'{"id": 1, "method": "message/send"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "message/send"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "message/explode"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "x"}}', -32001),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {"pageToken": "x"}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {"pageSize": 101}}', -32602),
    ],
)
async def test_bad_requests_are_errors_of_the_protocol(
    deployment: Deployment, body: bytes, code: int
) -> None:
    answer = await deployment.client.post(f"/a2a/{ECHO}", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, code)


async def test_files_bad_contexts_and_graphs_without_messages_are_refused(deployment: Deployment) -> None:
    file = {**old_message("x"), "parts": [{"kind": "file", "file": {"uri": "http://x"}}]}
    assert (await rpc(deployment.client, "message/send", {"message": file}))["error"]["code"] == -32005
    context = {**old_message("x"), "contextId": "not-a-uuid"}
    assert (await rpc(deployment.client, "message/send", {"message": context}))["error"]["code"] == -32602
    steps = await post(
        deployment.client,
        f"/a2a/{system_assistant_id('steps')}",
        "message/send",
        {"message": old_message("x")},
    )
    assert steps["error"]["code"] == -32602 and "messages" in steps["error"]["message"]
    nobody = await post(deployment.client, f"/a2a/{uuid4()}", "message/send", {"message": old_message("x")})
    assert nobody["error"]["code"] == -32602


async def test_a_card_needs_a_known_assistant(deployment: Deployment) -> None:
    assert (await deployment.client.get(CARD)).status_code == 422
    assert (await deployment.client.get(CARD, params={"assistant_id": str(uuid4())})).status_code == 404
    card = (await deployment.client.get(CARD, params={"assistant_id": str(ECHO)})).json()
    assert card["url"] == f"{deployment.url}/a2a/{ECHO}" and card["capabilities"]["streaming"] is True


def old_message(text: str) -> dict[str, Any]:
    return {"role": "user", "messageId": str(uuid4()), "parts": [{"kind": "text", "text": text}]}


async def rpc(client: httpx.AsyncClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return await post(client, f"/a2a/{ECHO}", method, params)


async def post(client: httpx.AsyncClient, url: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(url, json={"jsonrpc": "2.0", "id": "r", "method": method, "params": params})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert body["id"] == "r"
    return body


def _ids(events: list[StreamResponse]) -> tuple[str, str]:
    task = events[0].task
    return task.id, task.context_id
