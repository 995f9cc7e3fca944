"""A run's row, made from the body that asks for it and the assistant that it is for: by the API and by crons."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from storage.ids import new_id

# Keys that only the server may set (contract §2).
RESERVED_CONFIGURABLE = frozenset(
    {"langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions", "langgraph_request_id"}
)


def run_fields(
    body: Mapping[str, Any],
    assistant: DictRow,
    thread_id: UUID,
    lanes: int = 0,
    server_configurable: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What `storage.runs.Runs.create` takes. `body`: a RunCreate (agent server contract §3.4) without its nulls.

    `lanes`: of how many lanes one carries the run; 0 for a run on a thread. `server_configurable`: keys that the
    server adds to `config.configurable`, reserved ones among them.
    """
    run_id = new_id()
    return {
        "run_id": run_id,
        "lane": run_id.int % lanes if lanes else None,
        "thread_id": thread_id,
        "assistant_id": assistant["assistant_id"],
        "graph_id": assistant["graph_id"],
        "kwargs": _kwargs(body, assistant, server_configurable or {}),
        "metadata": {
            "created_by": "system",
            **(assistant["metadata"] or {}),
            **(body.get("metadata") or {}),
        },
        "multitask_strategy": body.get("multitask_strategy") or "enqueue",
        "after_seconds": body.get("after_seconds"),
        # A message for the run that is under way, which may take it up before its own turn comes.
        "inject": bool(body.get("inject")),
    }


def given_configurable(body: Mapping[str, Any]) -> dict[str, Any]:
    """`config.configurable` of a body without the keys that only the server may set."""
    configurable = (body.get("config") or {}).get("configurable") or {}
    return {
        key: value
        for key, value in configurable.items()
        if key not in RESERVED_CONFIGURABLE and not key.startswith("__")
    }


def _kwargs(
    body: Mapping[str, Any], assistant: DictRow, server_configurable: Mapping[str, Any]
) -> dict[str, Any]:
    """What the revision worker needs to execute the run (contract §3.4, kwargs)."""
    config, context = _configuration(body, assistant, server_configurable)
    checkpoint = {"checkpoint_ns": "", **body["checkpoint"]} if body.get("checkpoint") else None
    if body.get("checkpoint_id"):
        checkpoint = {"checkpoint_ns": "", **(checkpoint or {}), "checkpoint_id": body["checkpoint_id"]}
    modes = body.get("stream_mode")
    during = body.get("checkpoint_during")
    return {
        "input": body.get("input"),
        "command": body.get("command"),
        "config": config,
        "context": context,
        "checkpoint": checkpoint,
        "stream_mode": ([modes] if isinstance(modes, str) else modes) or ["values"],
        "subgraphs": bool(body.get("stream_subgraphs")),
        "resumable": bool(body.get("stream_resumable")),
        "interrupt_before": body.get("interrupt_before"),
        "interrupt_after": body.get("interrupt_after"),
        "webhook": body.get("webhook"),
        "feedback_keys": body.get("feedback_keys"),
        "temporary": False,
        "checkpoint_during": during,
        "durability": body.get("durability") or ("exit" if during is False else "async"),
        "on_disconnect": body.get("on_disconnect"),
        "langsmith_tracer": body.get("langsmith_tracer"),
        # Started over the streaming protocol: everything that its channels carry is recorded.
        **({"protocol": True} if body.get("protocol") else {}),
    }


def _configuration(
    body: Mapping[str, Any], assistant: DictRow, server_configurable: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The assistant's config and context under the run's; each is mirrored into the other when alone."""
    configurable, given_context = given_configurable(body), body.get("context") or {}
    base: dict[str, Any] = assistant["config"] or {}
    merged = {
        **(base.get("configurable") or {}),
        **configurable,
        **given_context,
        **server_configurable,
    }
    context = {**(assistant["context"] or {}), **given_context, **configurable}
    return {**base, **(body.get("config") or {}), "configurable": merged}, context
