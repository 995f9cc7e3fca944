"""The smallest graphs that still are graphs: what is measured is the server."""

import asyncio
from typing import Annotated, Any, TypedDict

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages


class State(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    ms: int
    count: int


async def reply(state: State) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": state["messages"][-1].content}]}


async def nap(state: State) -> dict[str, Any]:
    await asyncio.sleep(state.get("ms", 0) / 1000)
    return {}


async def emit(state: State) -> dict[str, Any]:
    write = get_stream_writer()
    for number in range(state["count"]):
        write({"chunk": number})
    return {}


def _graph(name: str, node: Any) -> Any:
    return StateGraph(State).add_node(name, node).add_edge(START, name).add_edge(name, END).compile()


echo = _graph("reply", reply)
sleep = _graph("nap", nap)
chunks = _graph("emit", emit)
