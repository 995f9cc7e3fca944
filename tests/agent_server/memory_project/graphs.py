"""A graph that uses the store."""

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime


class Memory(TypedDict, total=False):
    put: dict[str, Any]
    get: str
    query: str
    found: Any


async def use_store(state: Memory, runtime: Runtime[None]) -> dict[str, Any]:
    assert runtime.store is not None
    if "put" in state:
        for key, value in state["put"].items():
            await runtime.store.aput(("notes", "mine"), key, value)
    if "get" in state:
        item = await runtime.store.aget(("notes", "mine"), state["get"])
        return {"found": item.dict() if item else None}
    if "query" in state:
        items = await runtime.store.asearch(("notes",), query=state["query"])
        return {"found": [[item.key, list(item.namespace)] for item in items]}
    return {"found": [list(namespace) for namespace in await runtime.store.alist_namespaces()]}


remember = StateGraph(Memory).add_node("use", use_store).add_edge(START, "use").add_edge("use", END).compile()
