"""A graph that writes down what it did: each run adds `<name>:a`, then `<name>:b`."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph


class Ledger(TypedDict, total=False):
    name: str
    ms: int
    fails: bool
    entries: Annotated[list[str], operator.add]


async def begin(state: Ledger) -> dict[str, Any]:
    await asyncio.sleep(state["ms"] / 2000)
    return {"entries": [f"{state['name']}:a"]}


async def finish(state: Ledger) -> dict[str, Any]:
    await asyncio.sleep(state["ms"] / 2000)
    if state["fails"]:
        raise ValueError("told to fail")
    return {"entries": [f"{state['name']}:b"]}


ledger = (
    StateGraph(Ledger)
    .add_node("begin", begin)
    .add_node("finish", finish)
    .add_edge(START, "begin")
    .add_edge("begin", "finish")
    .add_edge("finish", END)
    .compile()
)
