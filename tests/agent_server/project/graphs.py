"""Graphs that show what an agent server does. No model, no network."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


async def answer(state: Chat) -> dict[str, Any]:
    return {"messages": [AIMessage(f"echo: {state['messages'][-1].content}")]}


echo = StateGraph(Chat).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END).compile()


class Progress(TypedDict, total=False):
    ms: int
    done: Annotated[list[str], operator.add]


def _step(name: str) -> Any:
    async def step(state: Progress) -> dict[str, Any]:
        await asyncio.sleep(state.get("ms", 0) / 1000)
        return {"done": [name]}

    return step


def _steps() -> Any:
    """Five nodes in a row; each sleeps `ms` milliseconds."""
    names = [f"step{number}" for number in range(1, 6)]
    builder = StateGraph(Progress)
    for name in names:
        builder.add_node(name, _step(name))
    for before, after in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(before, after)
    return builder.compile()


steps = _steps()


async def fail(state: Progress) -> dict[str, Any]:
    raise ValueError("told to fail")


failing = (
    StateGraph(Progress)
    .add_node("first", _step("first"))
    .add_node("fail", fail)
    .add_edge(START, "first")
    .add_edge("first", "fail")
    .add_edge("fail", END)
    .compile()
)


class Question(TypedDict, total=False):
    question: str
    answer: str


async def ask(state: Question) -> dict[str, Any]:
    return {"answer": interrupt({"question": state.get("question", "?")})}


asking = StateGraph(Question).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END).compile()


class Context(TypedDict, total=False):
    greeting: str


class Counter(TypedDict, total=False):
    inputs: Annotated[list[str], operator.add]
    count: int


async def count(state: Counter) -> dict[str, Any]:
    return {"count": len(state["inputs"])}


counter = (
    StateGraph(Counter, context_schema=Context)
    .add_node("count", count)
    .add_edge(START, "count")
    .add_edge("count", END)
    .compile()
)

# `ask` stops inside a subgraph of a subgraph.
_inner = StateGraph(Question).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END).compile()
_middle = (
    StateGraph(Question).add_node("inner", _inner).add_edge(START, "inner").add_edge("inner", END).compile()
)
nested = (
    StateGraph(Question)
    .add_node("middle", _middle)
    .add_edge(START, "middle")
    .add_edge("middle", END)
    .compile()
)
