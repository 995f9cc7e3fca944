"""Deployments from git repositories (`github` with a clone URL), and those that follow their branch."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
from temporalio.client import Client

from storage.database import Database
from tests.conftest import Workspace
from tests.control_plane.git_server import Repository, serving
from tests.control_plane.projects import echo
from tests.control_plane.steps import ask, creation, unique, wait_for_status
from tests.exports.waiting import until
from workflows.messages import names
from workflows.messages.push import PUSH_SCHEDULE, PUSH_WORKFLOW, FollowBranches


async def _create(client: httpx.AsyncClient, url: str, ref: str = "main", **source: Any) -> dict[str, Any]:
    body = creation(
        unique("git"),
        source="github",
        source_config={"repo_url": url, **source},
        source_revision_config={"repo_ref": ref, "langgraph_config_path": "langgraph.json"},
    )
    reply = await client.post("/v2/deployments", json=body)
    assert reply.status_code == 201, reply.text
    return dict(reply.json())


async def _revisions(client: httpx.AsyncClient, deployment_id: str) -> list[dict[str, Any]]:
    reply = await client.get(f"/v2/deployments/{deployment_id}/revisions")
    return list(reply.json()["resources"])


async def _look(client: Client) -> None:
    """One firing of the schedule, to its end."""
    await client.execute_workflow(
        PUSH_WORKFLOW, FollowBranches(), id=f"push-test-{uuid4()}", task_queue=names.PLATFORM_QUEUE
    )


async def test_a_deployment_follows_its_branch_and_builds_each_commit_once(
    workspace: Workspace, temporal_client: Client, database: Database, tmp_path: Path
) -> None:
    client = workspace.client
    repository = Repository(tmp_path)
    first = repository.push(echo("one"))
    with serving(repository) as url:
        deployment = await _create(client, url, build_on_push=True)
        deployment_id = deployment["id"]
        found = await wait_for_status(client, deployment_id, deployment["latest_revision_id"])
        assert found["status"] == "DEPLOYED", found
        assert found["source_revision_config"]["repo_commit_sha"] == first
        assert await ask(client, deployment["name"]) == "one"

        second = repository.push(echo("two"))
        await temporal_client.get_schedule_handle(PUSH_SCHEDULE).trigger()
        newest = await until(lambda: _newest(client, deployment_id, 2))
        assert newest["source_revision_config"]["repo_commit_sha"] == second
        found = await wait_for_status(client, deployment_id, newest["id"])
        assert found["status"] == "DEPLOYED", found
        assert await ask(client, deployment["name"]) == "two"

        repository.push({"langgraph.json": "{"})
        await asyncio.gather(_look(temporal_client), _look(temporal_client))
        newest = await until(lambda: _newest(client, deployment_id, 3))
        assert (await wait_for_status(client, deployment_id, newest["id"]))["status"] == "BUILD_FAILED"
        await asyncio.gather(_look(temporal_client), _look(temporal_client))
        assert len(await _revisions(client, deployment_id)) == 3, (
            "a commit that cannot be built is built once"
        )
        assert await ask(client, deployment["name"]) == "two"
    await client.patch(
        f"/v2/deployments/{deployment_id}", json={"display_name": "changed, so looked at anew"}
    )
    for _ in range(3):
        await _look(temporal_client)
    failures, problem = await _noted(database, deployment_id)
    assert failures == 1, "a repository that is gone is left alone for a while"
    assert url in problem


async def test_what_cannot_be_fetched_fails_with_the_reason(workspace: Workspace, tmp_path: Path) -> None:
    client = workspace.client
    repository = Repository(tmp_path)
    repository.push(echo())
    with serving(repository) as url:
        cases = [(url, "no-such-branch"), (url.replace("agent.git", "other.git"), "main")]
        made = [(await _create(client, *case), case) for case in cases]
        for deployment, (given, ref) in made:
            found = await wait_for_status(client, deployment["id"], deployment["latest_revision_id"])
            assert found["status"] == "BUILD_FAILED"
            assert f"'{ref}' of {given} could not be fetched" in found["status_message"]
    away = await _create(client, url.replace("//", "//user:hidden-word@"))
    found = await wait_for_status(client, away["id"], away["latest_revision_id"])
    assert found["status"] == "BUILD_FAILED" and "could not be fetched" in found["status_message"]
    assert "hidden-word" not in found["status_message"]


async def _newest(client: httpx.AsyncClient, deployment_id: str, count: int) -> dict[str, Any] | None:
    found = await _revisions(client, deployment_id)
    assert len(found) <= count
    return found[0] if len(found) == count else None


async def _noted(database: Database, deployment_id: str) -> tuple[int, str]:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT failures, problem FROM followed_branches WHERE deployment_id = %s", (UUID(deployment_id),)
        )
        row = await cursor.fetchone()
    assert row is not None
    return row["failures"], row["problem"]
