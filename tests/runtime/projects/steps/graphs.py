"""Graphs that tests run: each shows one behaviour of the runtime."""

import asyncio
import operator
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import interrupt


class Steps(TypedDict, total=False):
    done: Annotated[list[str], operator.add]
    seconds: float
    effects: str


def _note(path: str, name: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{name} {os.getpid()}\n")


def _step(name: str) -> Any:
    async def run(state: Steps) -> Steps:
        if state.get("effects"):
            _note(state["effects"], name)
        await asyncio.sleep(state.get("seconds", 0.0))
        return {"done": [name]}

    return run


def _steps() -> StateGraph:
    graph = StateGraph(Steps)
    names = [f"step{number}" for number in range(1, 6)]
    for name in names:
        graph.add_node(name, _step(name))
    for one, other in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(one, other)
    return graph


steps = _steps().compile()


class Messages(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


def _echo(state: Messages) -> Messages:
    return {"messages": [AIMessage(f"echo: {state['messages'][-1].text}")]}


echo = StateGraph(Messages).add_node("echo", _echo).add_edge(START, "echo").compile()


class Blocked(TypedDict, total=False):
    seconds: float
    release: str
    ballast: list[str]
    done: bool


async def _block(state: Blocked) -> Blocked:
    """For so many seconds, or until the file `release` is there."""
    release, until = state.get("release"), time.monotonic() + state["seconds"]
    while time.monotonic() < until and not (release and Path(release).exists()):
        time.sleep(0.05)  # noqa: ASYNC251 - that it blocks the loop is the point
    return {"done": True}


blocking = StateGraph(Blocked).add_node("block", _block).add_edge(START, "block").compile()


class Asked(TypedDict, total=False):
    answer: Any


def _ask(state: Asked) -> Asked:
    return {"answer": interrupt({"question": "go on?"})}


asking = StateGraph(Asked).add_node("ask", _ask).add_edge(START, "ask").compile()


class UnluckyError(Exception):
    pass


def _fail(state: Asked) -> Asked:
    raise UnluckyError("it went wrong")


failing = StateGraph(Asked).add_node("fail", _fail).add_edge(START, "fail").compile()


@asynccontextmanager
async def make_graph(config: dict[str, Any]) -> AsyncIterator[StateGraph]:
    """A factory: its graph knows the run's config."""
    user = config["configurable"].get("user", "nobody")

    def greet(state: Asked) -> Asked:
        return {"answer": f"{os.environ['PROJECT_GREETING']} {user}"}

    yield StateGraph(Asked).add_node("greet", greet).add_edge(START, "greet")


@dataclass
class Point:
    x: int


class Opaque:
    def __str__(self) -> str:
        return "opaque"


def _odd(state: Asked) -> Asked:
    write = get_stream_writer()
    write({"set": {1}, "bytes": b"ab", "big": 1 << 80, "opaque": Opaque(), "surrogate": "\ud800", 3: "key"})
    return {"answer": {"nul": "a\0b", "point": Point(1), "nan": float("nan")}}


odd = StateGraph(Asked).add_node("odd", _odd).add_edge(START, "odd").compile()

nested = StateGraph(Asked).add_node("inner", asking).add_edge(START, "inner").compile()


class Counted(TypedDict, total=False):
    count: int
    delay: float


async def _chunks(state: Counted) -> Counted:
    write = get_stream_writer()
    for number in range(state["count"]):
        write({"chunk": number})
        if number % 50 == 0:
            await asyncio.sleep(state.get("delay", 0))
    return {}


chunks = StateGraph(Counted).add_node("chunks", _chunks).add_edge(START, "chunks").compile()


def _again(state: Steps) -> Steps:
    return {"done": ["again"]}


endless = (
    StateGraph(Steps).add_node("again", _again).add_edge(START, "again").add_edge("again", "again").compile()
)
