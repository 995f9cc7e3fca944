"""Graphs for the tests of runs: no model, no network."""

import asyncio
import operator
from itertools import pairwise
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt


class Conversation(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    ms: int


async def reply(state: Conversation) -> dict[str, Any]:
    await asyncio.sleep(state.get("ms", 0) / 1000)
    return {"messages": [{"role": "assistant", "content": f"you said {state['messages'][-1].content}"}]}


class Steps(TypedDict, total=False):
    done: Annotated[list[str], operator.add]
    ms: int


def step(name: str) -> Any:
    async def node(state: Steps) -> dict[str, Any]:
        await asyncio.sleep(state.get("ms", 0) / 1000)
        return {"done": [name]}

    return node


async def fail(state: Steps) -> dict[str, Any]:
    raise ValueError("told to fail")


async def ask(state: Steps) -> dict[str, Any]:
    answer = interrupt({"question": "go on?"})
    return {"done": [f"answered {answer}"]}


async def show(state: Steps, config: RunnableConfig) -> dict[str, Any]:
    return {"done": [str(config["configurable"].get("tone"))]}


chat = StateGraph(Conversation).add_node(reply).add_edge(START, "reply").add_edge("reply", END).compile()


def _chain(*names: str) -> Any:
    graph = StateGraph(Steps)
    for name in names:
        graph.add_node(name, step(name))
    graph.add_edge(START, names[0])
    for earlier, later in pairwise(names):
        graph.add_edge(earlier, later)
    graph.add_edge(names[-1], END)
    return graph.compile()


steps = _chain("one", "two", "three", "four", "five")
failing = StateGraph(Steps).add_node(fail).add_edge(START, "fail").compile()
asking = StateGraph(Steps).add_node(ask).add_edge(START, "ask").add_edge("ask", END).compile()
configured = StateGraph(Steps).add_node(show).add_edge(START, "show").add_edge("show", END).compile()
