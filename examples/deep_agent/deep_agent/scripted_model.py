"""A chat model that needs no network: it streams scripted replies token by token, as a provider's model would.

It keeps no state between calls and chooses each reply from the conversation, so that any number of runs and
sub-agents may share it, and a run that is resumed after a
crash goes on with the same words.
"""

import asyncio
import json
import os
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from deep_agent.script import Reply, reply_to

# Each block of a message has a place of its own, by which chunks are put together again.
_REASONING, _TEXT, _FIRST_TOOL = 0, 1, 2
_TOKEN = re.compile(r"\S+\s*|\s+")
_ARGUMENT_CHARACTERS = 12
_FORMAT = {"output_version": "v1", "model_provider": "scripted"}


def _default_delay_seconds() -> float:
    return float(os.environ.get("SCRIPTED_TOKEN_SECONDS", "0.03"))


class ScriptedChatModel(BaseChatModel):
    """Replies by `deep_agent.script`; `role` says which of the agents speaks."""

    role: str
    token_seconds: float = _default_delay_seconds()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Itself: the script knows which tools its role has."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(reply_to(self.role, messages)):
            time.sleep(self.token_seconds)
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(reply_to(self.role, messages)):
            await asyncio.sleep(self.token_seconds)
            if run_manager:
                await run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
            yield chunk


def _chunks(reply: Reply) -> Iterator[ChatGenerationChunk]:
    """The reply in tokens: first its reasoning, then its text, then its tool calls; the last chunk has the usage."""
    message_id = f"lc_run--{uuid.uuid4()}"
    tokens = 0
    # Said once: the names in later chunks would be appended to it.
    yield _chunk(message_id, response_metadata={**_FORMAT, "model_name": "scripted"})
    for index, kind, content in ((_REASONING, "reasoning", reply.reasoning), (_TEXT, "text", reply.text)):
        for token in _TOKEN.findall(content):
            tokens += 1
            yield _chunk(message_id, content=[{"type": kind, kind: token, "index": index}])
    for index, call in enumerate(reply.tool_calls, _FIRST_TOOL):
        name, call_id, args = call["name"], f"call_{uuid.uuid4().hex[:24]}", json.dumps(call["args"])
        for start in range(0, len(args), _ARGUMENT_CHARACTERS):
            tokens += 1
            part = {"name": name, "id": call_id} if start == 0 else {"name": None, "id": None}
            piece = {**part, "args": args[start : start + _ARGUMENT_CHARACTERS], "index": index}
            block = {**piece, "type": "tool_call_chunk"}
            yield _chunk(message_id, content=[dict(block)], tool_call_chunks=[block])
    usage = {"input_tokens": 0, "output_tokens": tokens, "total_tokens": tokens}
    yield _chunk(message_id, usage_metadata=usage, chunk_position="last")


def _chunk(message_id: str, **fields: Any) -> ChatGenerationChunk:
    message = AIMessageChunk(**{"content": [], "id": message_id, "response_metadata": _FORMAT, **fields})
    return ChatGenerationChunk(message=message)
