"""Links show one trace to whoever has them, in both generations of the API; cursors lead forth and back."""

from typing import Any
from uuid import uuid4

import pytest
from langsmith import Client

from tests.conftest import Workspace
from tests.traces.wire import root_run

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*")


async def _project_with(workspace: Workspace, count: int) -> tuple[str, list[str]]:
    """A project with so many root runs; its id, and theirs, newest first."""
    runs = [root_run(session_name="shared", name=f"run {n}") for n in range(count)]
    assert (await workspace.client.post("/runs/batch", json={"post": runs})).status_code == 202
    answer = await workspace.client.get("/sessions", params={"name": "shared"})
    return str(answer.json()[0]["id"]), [run["id"] for run in reversed(runs)]


async def test_a_shared_trace_shows_itself_and_nothing_else(
    sdk: Client, workspace: Workspace, other_workspace: Workspace
) -> None:
    project, (run_id, hidden) = await _project_with(workspace, 2)
    shared = await sdk.runs.share.create(run_id, session_id=project, trace_id=run_id)
    token = str(shared.share_token)
    again = await sdk.runs.share.create(run_id, session_id=project, trace_id=run_id)
    assert again.share_token == token
    one = await sdk.runs.retrieve(run_id, project_id=project, selects=["SHARE_URL"])
    assert token in str(one.share_url)
    read = await sdk.public.runs.retrieve(
        run_id, share_token=token, selects=["NAME"], start_time="2026-01-01T00:00:00Z"
    )
    assert read.name == "run 1"
    found = await sdk.public.runs.query(token, selects=["ID"])
    assert [run.id for run in found.items or []] == [run_id]
    nobody = {"X-Api-Key": ""}
    for path in (f"/public/{token}/run/{hidden}", f"/public/{token}/datasets", f"/public/{uuid4()}/run"):
        assert (await workspace.client.get(path, headers=nobody)).status_code == 404, path
    body = {"session_id": project, "trace_id": run_id}
    foreign = other_workspace.client
    assert (await foreign.post(f"/api/v2/runs/{run_id}/share", json=body)).status_code == 404
    await foreign.delete(f"/api/v2/runs/{run_id}/share")
    assert (await workspace.client.get(f"/public/{token}/run", headers=nobody)).status_code == 200
    taken = await workspace.client.put(f"/runs/{hidden}/share", json={"share_token": token})
    assert taken.status_code == 409
    await sdk.runs.share.delete(run_id, session_id=project)
    assert (await workspace.client.get(f"/public/{token}/run", headers=nobody)).status_code == 404


@pytest.mark.parametrize("order", ["desc", "asc"])
async def test_cursors_lead_to_the_next_page_and_back(workspace: Workspace, order: str) -> None:
    project, expected = await _project_with(workspace, 7)
    expected = expected if order == "desc" else expected[::-1]

    async def page(cursor: str | None = None) -> tuple[list[str], dict[str, Any]]:
        body = {"session": [project], "limit": 3, "order": order, "cursor": cursor}
        answer = (await workspace.client.post("/runs/query", json=body)).json()
        return [run["id"] for run in answer["runs"]], answer["cursors"]

    first, at_first = await page()
    second, at_second = await page(at_first["next"])
    third, at_third = await page(at_second["next"])
    assert [first, second, third] == [expected[:3], expected[3:6], expected[6:]]
    assert (at_first["prev"], at_third["next"]) == (None, None)
    back, at_back = await page(at_third["prev"])
    assert back == second
    assert (await page(at_back["next"]))[0] == third
    start, at_start = await page(at_back["prev"])
    assert start == first
    assert (await page(at_start["next"]))[0] == second
