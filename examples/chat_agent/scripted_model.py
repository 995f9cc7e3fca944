"""A chat model that answers from the conversation alone: deterministic, streaming, without a network."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class ScriptedChatModel(BaseChatModel):
    """Says which message of the conversation it answers and repeats it. Stateless: a retried call answers the same.

    `seconds_per_token` makes it as slow as a real model.
    """

    seconds_per_token: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "scripted-chat-model"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        text = answer(messages)
        message = AIMessage(content=text, usage_metadata=_usage(messages, len(_tokens(text))))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(messages):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(messages):
            await asyncio.sleep(self.seconds_per_token)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def answer(messages: list[BaseMessage]) -> str:
    """The reply to a conversation."""
    questions = [message for message in messages if isinstance(message, HumanMessage)]
    if not questions:
        return "Hello! Write something, and I will repeat it."
    return f'Answer {len(questions)}: you said "{questions[-1].text.strip()}".'


def _chunks(messages: list[BaseMessage]) -> Iterator[ChatGenerationChunk]:
    tokens = _tokens(answer(messages))
    for token in tokens:
        yield ChatGenerationChunk(message=AIMessageChunk(content=token))
    last = AIMessageChunk(content="", usage_metadata=_usage(messages, len(tokens)), chunk_position="last")
    yield ChatGenerationChunk(message=last)


def _tokens(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def _usage(messages: list[BaseMessage], output_tokens: int) -> UsageMetadata:
    input_tokens = sum(len(_tokens(message.text)) for message in messages)
    return UsageMetadata(
        input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
    )
