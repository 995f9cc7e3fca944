"""Assistants as tools."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg.rows import DictRow

from api.agent_server.jsonrpc import INVALID_PARAMS, RpcError
from api.agent_server.run_creation import create_stateless_runs
from api.agent_server.schemas import RunCreate
from api.services import Services
from storage.assistants import SYSTEM_METADATA, Assistants
from storage.runs import UNFINISHED, Runs
from storage.served import ServedDeployment

PAGE_TOOLS = 100
MAX_TOOLS = 1_000
HEARTBEAT_SECONDS = 5.0
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_NAME = 128


@dataclass(frozen=True)
class Toolbox:
    """The tools of one deployment."""

    services: Services
    deployment: ServedDeployment

    async def page(self, cursor: str | None) -> dict[str, Any]:
        """Tools from a cursor on: `tools`, and `nextCursor` if there are more."""
        start = _start(cursor)
        tools = list((await self._assistants(self.deployment.metadata_filter)).items())
        page = [self._described(name, assistant) for name, assistant in tools[start : start + PAGE_TOOLS]]
        following = start + PAGE_TOOLS
        return {"tools": page, **({"nextCursor": str(following)} if following < len(tools) else {})}

    async def begin(self, name: str, arguments: dict[str, Any]) -> DictRow:
        """The stateless run that a call of a tool starts.

        Raises:
            RpcError: there is no such tool.
        """
        assistant = (await self._assistants(self.deployment.metadata_filter)).get(name)
        if assistant is None and self.deployment.metadata_filter:
            assistant = (await self._assistants(SYSTEM_METADATA)).get(name)
        if assistant is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}")
        messages = arguments.get("messages")
        if isinstance(messages, str):
            arguments = {**arguments, "messages": [{"role": "user", "content": messages}]}
        run = RunCreate(assistant_id=assistant["assistant_id"], input=arguments)
        return (await create_stateless_runs(self.services, self.deployment, [run]))[0]

    async def result(self, run: DictRow) -> AsyncIterator[dict[str, Any] | None]:
        """None for every silence of 5 s, then the tool's result."""
        with self.services.notifications.subscribe(str(run["thread_id"]), by_events=False) as changes:
            while True:
                async with self.services.database.connection() as connection:
                    row = await Runs(connection, self.deployment.scope).outcome(
                        run["thread_id"], run["run_id"]
                    )
                if row is None or row["status"] not in UNFINISHED:
                    yield _result(row)
                    return
                if not await changes.wait(HEARTBEAT_SECONDS):
                    yield None

    async def _assistants(self, metadata: dict[str, Any]) -> dict[str, DictRow]:
        """Those with this metadata by tool name, the oldest first; later ones of the same name carry their id in it."""
        async with self.services.database.connection() as connection:
            rows = await Assistants(connection, self.deployment.scope).search(
                {"metadata": metadata}, "created_at", False, MAX_TOOLS, 0
            )
        tools: dict[str, DictRow] = {}
        for row in rows:
            if row["graph_id"] not in self.deployment.graph_ids:
                continue
            name = _UNSAFE.sub("_", row["name"])[:_MAX_NAME] or str(row["assistant_id"])
            if name in tools:
                name = f"{name[: _MAX_NAME - 37]}-{row['assistant_id']}"
            tools[name] = row
        return tools

    def _described(self, name: str, assistant: DictRow) -> dict[str, Any]:
        graph = self.deployment.graph(assistant["graph_id"]) or {}
        description = assistant["description"] or graph.get("description") or f"Runs {assistant['name']}."
        return {
            "name": name,
            "title": assistant["name"],
            "description": description,
            "inputSchema": _input_schema((graph.get("schemas") or {}).get("input")),
        }


def _input_schema(schema: Any) -> dict[str, Any]:
    """The graph's input; its messages are one text, which is what a model can write."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return {"type": "object"}
    properties = dict(schema.get("properties") or {})
    if "messages" not in properties:
        return schema
    properties["messages"] = {"type": "string", "description": "What to say to the agent."}
    if len(properties) > 1:
        return {**schema, "properties": properties}
    plain = {key: value for key, value in schema.items() if key != "$defs"}
    return {**plain, "properties": properties}


def _result(row: DictRow | None) -> dict[str, Any]:
    if row is None:
        return _failed("The run was deleted before it ended.")
    if row["error"]:
        return _failed(f"{row['error'].get('error')}: {row['error'].get('message')}")
    if row["status"] != "success":
        return _failed(f"The run ended as {row['status']}.")
    values = row["values"]
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": orjson.dumps(values).decode()}],
        "isError": False,
    }
    if isinstance(values, dict):
        result["structuredContent"] = values
    return result


def _failed(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _start(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 6:
        raise RpcError(INVALID_PARAMS, "Invalid params: cursor is not one of ours.")
    return int(cursor)
