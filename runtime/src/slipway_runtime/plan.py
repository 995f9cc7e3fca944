"""What a run asked for: how its graph is called, and what of its stream is recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Send

from slipway_runtime.claims import Claim

# Classic stream modes that langgraph's own stream carries under the same name.
_OWN_MODES = ("updates", "custom", "debug")
_TOKEN_MODES = ("messages", "messages-tuple")
_ALWAYS = ("values", "checkpoints", "tasks")


@dataclass(frozen=True)
class Plan:
    """Decided once, from the run's kwargs (docs/architecture/streams.md, What is recorded).

    `recorded`: events that get rows. `tokens`: whether chat models stream into the record. `subgraphs`: whether
    events of nested graphs are recorded. `protocol`: whether the run was started over the streaming protocol.
    """

    graph_modes: tuple[str, ...]
    recorded: frozenset[str]
    tokens: bool
    subgraphs: bool
    protocol: bool
    langchain_events: bool

    @classmethod
    def of(cls, kwargs: Mapping[str, Any]) -> "Plan":
        asked = kwargs.get("stream_mode") or ["values"]
        modes = {asked} if isinstance(asked, str) else set(asked)
        protocol = bool(kwargs.get("protocol"))
        if protocol:
            modes |= {"updates", "custom", "tasks"}
        tokens = protocol or not modes.isdisjoint(_TOKEN_MODES)
        graph_modes = [*_ALWAYS, *(mode for mode in _OWN_MODES if mode in modes)]
        if tokens:
            graph_modes += ["messages", "tools"]
        return cls(
            graph_modes=tuple(graph_modes),
            recorded=frozenset({"values", *modes}),
            tokens=tokens,
            subgraphs=protocol or bool(kwargs.get("stream_subgraphs") or kwargs.get("subgraphs")),
            protocol=protocol,
            langchain_events="events" in modes,
        )


def graph_config(claim: Claim) -> RunnableConfig:
    """The config that the graph runs with: the caller's, and the ids of thread, run and assistant."""
    given = claim.kwargs.get("config") or {}
    checkpoint = claim.kwargs.get("checkpoint") or {}
    if claim.kwargs.get("checkpoint_id"):
        checkpoint = {"checkpoint_id": claim.kwargs["checkpoint_id"], **checkpoint}
    ids = {
        "thread_id": claim.thread_id,
        "run_id": claim.run_id,
        "assistant_id": claim.assistant_id,
        "graph_id": claim.graph_id,
    }
    configurable = {
        **(given.get("configurable") or {}),
        **{key: value for key, value in checkpoint.items() if key in _CHECKPOINT_KEYS and value is not None},
        **ids,
    }
    configurable.setdefault("checkpoint_ns", "")
    config: RunnableConfig = {
        "configurable": configurable,
        "metadata": {**(given.get("metadata") or {}), **claim.metadata, **ids},
        "run_id": UUID(claim.run_id),
        "run_name": given.get("run_name") or claim.graph_id,
    }
    if given.get("tags"):
        config["tags"] = list(given["tags"])
    if given.get("recursion_limit"):
        config["recursion_limit"] = int(given["recursion_limit"])
    if given.get("max_concurrency"):
        config["max_concurrency"] = int(given["max_concurrency"])
    return config


_CHECKPOINT_KEYS = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")


def graph_input(kwargs: Mapping[str, Any]) -> Any:
    """What the graph is called with at the run's first start: a command wins over an input."""
    command = kwargs.get("command")
    return command_of(command) if command else kwargs.get("input")


def command_of(command: Mapping[str, Any]) -> Command[Any]:
    """langgraph's command from its JSON: update, resume, goto."""
    return Command(
        update=_update(command.get("update")),
        resume=command.get("resume"),
        goto=_goto(command.get("goto")),
    )


def graph_options(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `astream` that the caller may choose."""
    options: dict[str, Any] = {}
    for key in ("interrupt_before", "interrupt_after"):
        if kwargs.get(key):
            options[key] = kwargs[key]
    if kwargs.get("context"):
        options["context"] = kwargs["context"]
    durability = kwargs.get("durability")
    if durability is None and kwargs.get("checkpoint_during") is False:
        durability = "exit"
    options["durability"] = durability or "async"
    return options


def _update(update: Any) -> Any:
    if (
        isinstance(update, list)
        and update
        and all(isinstance(pair, list) and len(pair) == 2 for pair in update)
    ):
        return [tuple(pair) for pair in update]
    return update


def _goto(goto: Any) -> Any:
    if goto is None:
        return ()
    if isinstance(goto, Sequence) and not isinstance(goto, str):
        return [_target(item) for item in goto]
    return _target(goto)


def _target(target: Any) -> Any:
    return Send(target["node"], target.get("input")) if isinstance(target, dict) else target
