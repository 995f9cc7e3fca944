"""MCP with the official client (agent server contract §3.9)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client, ConnectMode
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.agent_server.conftest import Deployment


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> ConnectMode:
    """With the handshake of older clients, and as a client of today finds out by itself."""
    mode: ConnectMode = request.param
    return mode


@asynccontextmanager
async def connected(deployment: Deployment, mode: ConnectMode) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(
        headers={"X-Api-Key": deployment.api_key}, timeout=60, trust_env=False
    ) as http:
        transport = streamable_http_client(f"{deployment.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


async def test_every_assistant_is_a_tool(deployment: Deployment, mode: ConnectMode) -> None:
    async with connected(deployment, mode) as mcp:
        tools = {tool.name: tool for tool in (await mcp.list_tools()).tools}
    assert {"echo", "steps", "failing", "counter"} <= tools.keys()
    assert tools["echo"].input_schema["properties"]["messages"]["type"] == "string"
    assert tools["counter"].description == "Counts its inputs."


async def test_a_tool_answers_with_json(deployment: Deployment, mode: ConnectMode) -> None:
    async with connected(deployment, mode) as mcp:
        result = await mcp.call_tool("echo", {"messages": "hello"})
    assert not result.is_error
    state = json.loads(result.content[0].text)  # type: ignore[union-attr]
    assert [message["content"] for message in state["messages"]] == ["hello", "echo: hello"]
    assert result.structured_content == state


async def test_a_failing_tool_says_why(deployment: Deployment, mode: ConnectMode) -> None:
    async with connected(deployment, mode) as mcp:
        result = await mcp.call_tool("failing", {})
    assert result.is_error and "told to fail" in result.content[0].text  # type: ignore[union-attr]


async def test_an_unknown_tool_is_an_error_of_the_protocol(deployment: Deployment, mode: ConnectMode) -> None:
    async with connected(deployment, mode) as mcp:
        with pytest.raises(MCPError) as caught:
            await mcp.call_tool("nothing", {})
    assert caught.value.error.code == -32602


async def test_assistants_of_one_name_are_two_tools(deployment: Deployment) -> None:
    made = [await deployment.sdk.assistants.create("counter", name="a twin!") for _ in range(2)]
    try:
        listed = (await rpc(deployment, "tools/list", {}))["result"]["tools"]
        twins = [tool["name"] for tool in listed if tool["title"] == "a twin!"]
        assert twins == ["a_twin_", f"a_twin_-{made[1]['assistant_id']}"]
    finally:
        for assistant in made:
            await deployment.sdk.assistants.delete(assistant["assistant_id"])


async def test_the_wire_follows_the_contract(deployment: Deployment) -> None:
    initialized = await rpc(deployment, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    assert initialized["result"]["protocolVersion"] == "2025-06-18"
    assert initialized["result"]["capabilities"] == {"tools": {"listChanged": False}}
    assert (await rpc(deployment, "ping", {}))["result"] == {}
    assert (await rpc(deployment, "prompts/list", {}))["error"]["code"] == -32601
    notified = await deployment.client.post(
        "/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}
    )
    assert (notified.status_code, notified.content) == (202, b"")
    assert (await deployment.client.get("/mcp")).status_code == 405
    assert (
        await deployment.client.post("/mcp", content=b"{}", headers={"Accept": "text/html"})
    ).status_code == 400
    slash = await deployment.client.post("/mcp/", json={})
    assert slash.status_code == 307 and slash.headers["location"].endswith("/mcp")


@pytest.mark.parametrize(
    ("params", "code"),
    [({}, -32602), ({"name": 1}, -32602), ({"name": "echo", "arguments": []}, -32602)],
)
async def test_bad_calls_are_errors_of_the_protocol(
    deployment: Deployment, params: dict[str, Any], code: int
) -> None:
    assert (await rpc(deployment, "tools/call", params))["error"]["code"] == code


async def rpc(deployment: Deployment, method: str, params: dict[str, Any]) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await deployment.client.post("/mcp", json=body)
    assert answer.status_code == 200, answer.text
    parsed: dict[str, Any] = answer.json()
    return parsed
