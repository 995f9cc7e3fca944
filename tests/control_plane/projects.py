"""Small projects to deploy."""

import io
import tarfile
from typing import Any

import orjson

ECHO = """
from typing import Annotated, TypedDict
from operator import add
from langgraph.graph import START, StateGraph

class State(TypedDict, total=False):
    messages: Annotated[list, add]

async def answer(state):
    return {"messages": [{"role": "ai", "content": "VERSION"}]}

graph = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").compile()
"""


def echo(version: str = "one") -> dict[str, str]:
    """A graph that answers with its version."""
    return {"agent.py": ECHO.replace("VERSION", version), "langgraph.json": config()}


def config(**keys: Any) -> str:
    """A langgraph.json for a graph `agent` in agent.py."""
    return orjson.dumps({"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}, **keys}).decode()


def tarball(files: dict[str, str | bytes]) -> bytes:
    """A tar.gz of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
