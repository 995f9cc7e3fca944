"""Which chat model drives the agent: a provider's when its key is in the environment, else the scripted one."""

import os
from typing import Literal

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from deep_agent.scripted_model import ScriptedChatModel

Role = Literal["coordinator", "researcher", "math-whiz"]

# Variable with the provider's key, and the model that is used then unless CHAT_MODEL names another.
_PROVIDERS = {
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-6",
    "OPENAI_API_KEY": "openai:gpt-5.4-mini",
}


def model_for(role: Role) -> BaseChatModel:
    """The model of one role. `CHAT_MODEL` (`provider:model`) wins over the provider's default."""
    for variable, default in _PROVIDERS.items():
        if os.environ.get(variable):
            return init_chat_model(os.environ.get("CHAT_MODEL") or default)
    return ScriptedChatModel(role=role)
