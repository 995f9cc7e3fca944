"""A plain chat agent: one node that calls the model with the whole conversation."""

from langgraph.graph import END, START, MessagesState, StateGraph
from scripted_model import ScriptedChatModel

model = ScriptedChatModel()


async def chat(state: MessagesState) -> dict[str, object]:
    """Append the model's reply to the conversation."""
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = (
    StateGraph(MessagesState).add_node("chat", chat).add_edge(START, "chat").add_edge("chat", END).compile()
)
