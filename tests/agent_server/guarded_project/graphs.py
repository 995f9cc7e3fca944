"""A graph that shows what the server put into its config."""

from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph


class Seen(TypedDict, total=False):
    shown: dict[str, Any]


def look(state: Seen, config: RunnableConfig) -> dict[str, Any]:
    shown = {key: str(value) for key, value in config["configurable"].items() if not key.startswith("__")}
    user = config["configurable"].get("langgraph_auth_user")
    return {"shown": {**shown, "identity": user["identity"] if user else None}}


seen = StateGraph(Seen).add_node("look", look).add_edge(START, "look").add_edge("look", END).compile()


def answer(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    user = config["configurable"]["langgraph_auth_user"]
    return {"messages": [{"role": "assistant", "content": f"Hello {user['identity']}."}]}


talk = (
    StateGraph(MessagesState)
    .add_node("answer", answer)
    .add_edge(START, "answer")
    .add_edge("answer", END)
    .compile()
)
