"""Graphs that stream: a chat model token by token, tools, nested graphs, interrupts, failures, chunks."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, TypedDict

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt


class Scripted(BaseChatModel):
    """Says what it was told, word by word; `compute …` makes it call the tool first."""

    seconds: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        text = f"You said: {messages[-1].text}"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for message in _chunks(messages):
            await asyncio.sleep(self.seconds)
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                await run_manager.on_llm_new_token(message.text, chunk=chunk)
            yield chunk


def _chunks(messages: list[BaseMessage]) -> Iterator[AIMessageChunk]:
    last = messages[-1]
    if isinstance(last, HumanMessage) and last.text.startswith("compute "):
        arguments = '{"expression": "' + last.text.removeprefix("compute ") + '"}'
        yield AIMessageChunk("Let me see. ")
        for place, piece in enumerate(re.findall(r".{1,8}", arguments)):
            call = {
                "name": "compute" if not place else None,
                "args": piece,
                "id": "call-1" if not place else None,
            }
            yield AIMessageChunk("", tool_call_chunks=[{**call, "index": 1, "type": "tool_call_chunk"}])
        yield AIMessageChunk("", chunk_position="last")
        return
    said = f"The result is {last.text}" if isinstance(last, ToolMessage) else f"You said: {last.text}"
    for word in re.findall(r"\S+\s*", said):
        yield AIMessageChunk(word)
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    yield AIMessageChunk("", usage_metadata=usage, chunk_position="last")


class Messages(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    seconds: float


async def _answer(state: Messages) -> Messages:
    return {"messages": [await Scripted(seconds=state.get("seconds", 0.0)).ainvoke(state["messages"])]}


chat = StateGraph(Messages).add_node("model", _answer).add_edge(START, "model").compile(name="chat")


@tool
def compute(expression: str) -> str:
    """The result of a multiplication."""
    one, other = expression.split("*")
    return str(int(one) * int(other))


def _route(state: Messages) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


tools = (
    StateGraph(Messages)
    .add_node("model", _answer)
    .add_node("tools", ToolNode([compute]))
    .add_edge(START, "model")
    .add_conditional_edges("model", _route, ["tools", END])
    .add_edge("tools", "model")
    .compile()
)

nested = (
    StateGraph(Messages)
    .add_node("outer", StateGraph(Messages).add_node("inner", chat).add_edge(START, "inner").compile())
    .add_edge(START, "outer")
    .compile()
)


class Asked(TypedDict, total=False):
    answer: Any


def _ask(state: Asked) -> Asked:
    return {"answer": interrupt({"question": "go on?"})}


asking = StateGraph(Asked).add_node("ask", _ask).add_edge(START, "ask").compile()


class UnluckyError(Exception):
    pass


def _fail(state: Asked) -> Asked:
    raise UnluckyError("boom")


failing = StateGraph(Asked).add_node("fail", _fail).add_edge(START, "fail").compile()


class Counted(TypedDict, total=False):
    count: int
    every_seconds: float
    text_bytes: int


async def _chunks_of(state: Counted) -> Counted:
    write = get_stream_writer()
    for number in range(state["count"]):
        text = {"text": "x" * state["text_bytes"]} if state.get("text_bytes") else {}
        write({"chunk": number, **text})
        if state.get("every_seconds") is not None:
            await asyncio.sleep(state["every_seconds"])
    return {}


chunks = StateGraph(Counted).add_node("chunks", _chunks_of).add_edge(START, "chunks").compile()


class Steps(TypedDict, total=False):
    done: Annotated[list[str], lambda old, new: old + new]
    seconds: float


def _step(name: str) -> Any:
    async def run(state: Steps) -> Steps:
        get_stream_writer()({"began": name})
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


def _look(name: str) -> Any:
    async def run(state: Messages) -> Messages:
        get_stream_writer()({"began": name})
        await asyncio.sleep(state.get("seconds", 0.0))
        heard = [message.text for message in state["messages"] if isinstance(message, HumanMessage)]
        return {"messages": [AIMessage(f"{name} heard {', '.join(heard)}")]}

    return run


def _listening() -> StateGraph:
    graph = StateGraph(Messages)
    names = ["one", "two", "three"]
    for name in names:
        graph.add_node(name, _look(name))
    for one, other in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(one, other)
    return graph


listening = _listening().compile()


async def _approve(state: Messages) -> Messages:
    get_stream_writer()({"began": "approve"})
    await asyncio.sleep(state.get("seconds", 0.0))
    return {"messages": [AIMessage(f"Approved: {interrupt('may I?')}")]}


approving = StateGraph(Messages).add_node("approve", _approve).add_edge(START, "approve").compile()


def _again(state: Steps) -> Steps:
    return {"done": ["again"]}


endless = (
    StateGraph(Steps).add_node("again", _again).add_edge(START, "again").add_edge("again", "again").compile()
)
