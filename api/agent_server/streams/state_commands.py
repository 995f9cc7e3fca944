"""Commands that only read: state, checkpoints, the tree of graphs (streaming contract §1.4)."""

from typing import Any
from uuid import UUID

import orjson
from psycopg.rows import DictRow

from api.agent_server.streams.command_errors import CommandError
from api.agent_server.streams.protocol_schemas import GetTree, ListCheckpoints, StateGet
from api.services import Services
from storage.runs import Runs
from storage.scope import DeploymentScope
from storage.states import States
from storage.thread_events import ThreadEvents

_STATUS = {"running": "running", "started": "running"}


async def get_state(
    services: Services, scope: DeploymentScope, thread_id: UUID, params: StateGet
) -> dict[str, Any]:
    """`state.get`: the newest values of a namespace, all or some keys of them."""
    async with services.database.connection() as connection:
        text = await States(connection, scope).find(thread_id, "|".join(params.namespace))
    if text is None:
        if params.namespace:
            raise _no_namespace(params.namespace)
        return {"values": {}}
    state = orjson.loads(text)
    values = state["values"]
    if params.keys is not None and isinstance(values, dict):
        values = {key: values[key] for key in params.keys if key in values}
    checkpoint = state["checkpoint"]
    return {
        "values": values,
        "checkpoint": {"id": checkpoint["checkpoint_id"], "ns": checkpoint["checkpoint_ns"]},
    }


async def list_checkpoints(
    services: Services, scope: DeploymentScope, thread_id: UUID, params: ListCheckpoints
) -> dict[str, Any]:
    """`state.listCheckpoints`: newest first."""
    namespace = "|".join(params.namespace)
    async with services.database.connection() as connection:
        states = States(connection, scope)
        texts = await states.history(thread_id, params.limit, namespace=namespace, before=params.before)
        if not texts and params.namespace and await states.find(thread_id, namespace) is None:
            raise _no_namespace(params.namespace)
    return {"checkpoints": [_checkpoint(orjson.loads(text)) for text in texts]}


async def has_checkpoint(
    services: Services, scope: DeploymentScope, thread_id: UUID, checkpoint_id: str
) -> bool:
    async with services.database.connection() as connection:
        return await States(connection, scope).find(thread_id, "", checkpoint_id) is not None


async def get_tree(
    services: Services, scope: DeploymentScope, thread_id: UUID, params: GetTree
) -> dict[str, Any]:
    """`agent.getTree`: the graphs of a run, by default the newest, and how each stands."""
    async with services.database.connection() as connection:
        runs = Runs(connection, scope)
        if params.run_id is not None:
            run = await runs.get(thread_id, params.run_id)
        else:
            run = next(iter(await runs.page(thread_id, None, 1, 0)), None)
        if run is None:
            raise CommandError("no_such_run", "The thread has no such run.")
        rows = await ThreadEvents(connection, scope).lifecycle(thread_id, run["run_id"])
    return {"tree": _tree(rows, run["graph_id"], run["status"])}


def _tree(rows: list[DictRow], graph_id: str, run_status: str) -> dict[str, Any]:
    root: dict[str, Any] = {"namespace": [], "status": "running", "graph_name": graph_id}
    if run_status == "pending":
        root["status"] = "started"
    nodes: dict[tuple[str, ...], dict[str, Any]] = {(): root}
    for row in rows:
        data = orjson.loads(row["data"])
        namespace = tuple(row["namespace"])
        if row["event"] == "running":
            continue
        status = _STATUS.get(data["event"], data["event"])
        if namespace in nodes:
            nodes[namespace]["status"] = status
            continue
        node = {"namespace": list(namespace), "status": status, "graph_name": data.get("graph_name", "")}
        nodes[namespace] = node
        _parent_of(namespace, nodes).setdefault("children", []).append(node)
    return root


def _parent_of(namespace: tuple[str, ...], nodes: dict[tuple[str, ...], dict[str, Any]]) -> dict[str, Any]:
    for length in range(len(namespace) - 1, 0, -1):
        if namespace[:length] in nodes:
            return nodes[namespace[:length]]
    return nodes[()]


def _checkpoint(state: dict[str, Any]) -> dict[str, Any]:
    metadata = state["metadata"] or {}
    return {
        "id": state["checkpoint"]["checkpoint_id"],
        "timestamp": state["created_at"],
        "step": metadata.get("step"),
        "metadata": metadata,
        **({"node_name": state["next"][0]} if state["next"] else {}),
    }


def _no_namespace(namespace: list[str]) -> CommandError:
    return CommandError("no_such_namespace", f"The thread has no state in the namespace {namespace}.")
