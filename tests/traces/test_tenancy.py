"""Whose traces a key may write and read."""

from collections.abc import Callable
from typing import Any

import httpx

from storage.database import Database
from storage.ids import new_id
from tests.conftest import Workspace
from tests.traces.wire import new_deployment, root_run

Query = Callable[..., Any]


async def ingest(workspace: Workspace, *runs: dict[str, Any], key: str | None = None) -> httpx.Response:
    headers = {"X-Api-Key": key or workspace.api_key}
    return await workspace.client.post("/runs/batch", json={"post": list(runs)}, headers=headers)


async def test_another_workspaces_traces_do_not_exist(
    workspace: Workspace, other_workspace: Workspace, query: Query
) -> None:
    run = root_run()
    await ingest(workspace, run)
    mine = (await query(id=[run["id"]]))[0]
    feedback = await workspace.client.post("/feedback", json={"run_id": run["id"], "key": "k", "score": 1})
    other = other_workspace.client
    assert (await other.get(f"/runs/{run['id']}")).status_code == 404
    assert (await other.get(f"/sessions/{mine['session_id']}")).status_code == 404
    assert (await other.patch(f"/sessions/{mine['session_id']}", json={"name": "x"})).status_code == 404
    assert (await other.delete(f"/sessions/{mine['session_id']}")).status_code == 404
    assert (await other.get(f"/feedback/{feedback.json()['id']}")).status_code == 404
    assert (await other.delete(f"/feedback/{feedback.json()['id']}")).status_code == 404
    for body in ({"id": [run["id"]]}, {"trace": run["id"]}, {"session": [mine["session_id"]]}, {}):
        assert (await other.post("/runs/query", json=body)).json()["runs"] == []
    # The same run id in another workspace is another run; a foreign project id is unknown.
    assert (await ingest(other_workspace, {**run, "name": "theirs"})).status_code == 202
    assert (await ingest(other_workspace, root_run(session_id=mine["session_id"]))).status_code == 404
    await other.post("/runs/delete", json={"run_ids": [run["id"]]})
    assert (await query(id=[run["id"]]))[0]["name"] == "run"


async def test_a_tracing_key_writes_only_to_its_deployments_project(
    workspace: Workspace, database: Database, query: Query
) -> None:
    name = f"agent-{new_id().hex[-12:]}"
    _, key = await new_deployment(database, workspace.tenant_id, name)
    foreign = root_run(session_name="somebody's")
    assert (await ingest(workspace, foreign)).status_code == 202
    own, unnamed = root_run(session_name=name), root_run(session_name=None)
    assert (await ingest(workspace, own, unnamed, key=key)).status_code == 202
    assert (await ingest(workspace, root_run(session_name="somebody's"), key=key)).status_code == 403
    patch = {**foreign, "session_name": name, "outputs": {"stolen": True}}
    assert (await ingest(workspace, patch, key=key)).status_code == 403
    assert (await query(id=[foreign["id"]]))[0]["outputs"] is None
    sessions = {run["session_id"] for run in await query(id=[own["id"], unnamed["id"]])}
    assert len(sessions) == 1
    reading = await workspace.client.post("/runs/query", json={}, headers={"X-Api-Key": key})
    assert reading.status_code == 403


async def test_no_key_and_a_wrong_key_are_401(workspace: Workspace) -> None:
    for key in ("", "slw_wrong"):
        assert (await ingest(workspace, root_run(), key=key or "x")).status_code == 401
    assert (await workspace.client.get("/info", headers={"X-Api-Key": "not-a-real-key"})).status_code == 200
