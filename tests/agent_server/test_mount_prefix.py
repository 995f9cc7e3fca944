"""A deployment whose langgraph.json has an `http.mount_prefix` (agent server contract §2, §7)."""

import json
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest
from slipway_runtime.options import OptionError, read_options
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from api.agent_server.app import create_agent_server
from storage.database import Database
from tests.agent_server.bare_deployment import BareDeployment, bare_deployment
from tests.conftest import Workspace

PREFIX = "/agents/support"
OPTIONS = {"http": {"mount_prefix": PREFIX}}


@pytest.fixture
async def prefixed(database: Database, workspace: Workspace) -> AsyncIterator[BareDeployment]:
    async with bare_deployment(database, workspace, ["echo"], options=OPTIONS) as deployment:
        yield deployment


async def test_both_addresses_answer_the_same(prefixed: BareDeployment, workspace: Workspace) -> None:
    below = f"{prefixed.url}{PREFIX}"
    thread_id = (await workspace.client.post(f"{below}/threads", json={})).json()["thread_id"]
    for url in (below, prefixed.url):
        assert (await workspace.client.get(f"{url}/threads/{thread_id}")).json()["thread_id"] == thread_id
        assert (await workspace.client.get(f"{url}/ok")).json()["ok"] is True
        assert (await workspace.client.get(f"{url}/openapi.json")).status_code == 200
        assert (await workspace.client.put(f"{url}/threads", json={})).status_code == 405
        assert (await workspace.client.post(f"{url}/threads", json={"ttl": -1})).status_code == 422
    async with httpx.AsyncClient(trust_env=False) as keyless:
        assert (await keyless.get(f"{below}/info")).json()["host"]["project_id"]
        assert (await keyless.get(f"{below}/threads/{thread_id}")).status_code == 401


async def test_websockets_are_answered_below_the_prefix(
    prefixed: BareDeployment, workspace: Workspace
) -> None:
    url = f"{prefixed.url}{PREFIX}/threads/{uuid4()}/stream/events".replace("http", "ws", 1)
    async with connect(url, additional_headers={"X-Api-Key": workspace.api_key}, proxy=None) as websocket:
        await websocket.send(json.dumps({"id": 1, "method": "no.such", "params": {}}))
        assert json.loads(await websocket.recv())["error"] == "unknown_command"
    with pytest.raises(InvalidStatus):
        await connect(url.replace(PREFIX, "/other"), proxy=None)


@pytest.mark.parametrize(
    "path",
    [
        f"{PREFIX}x/ok",
        "/agents/ok",
        "/other/ok",
        f"{PREFIX}{PREFIX}/ok",
        PREFIX * 2_000,
        f"{PREFIX}/nothing/here",
        f"{PREFIX}/%2e%2e/ok%00",
    ],
)
async def test_any_other_path_is_not_found(prefixed: BareDeployment, workspace: Workspace, path: str) -> None:
    answer = await workspace.client.get(f"{prefixed.url}{path}")
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


async def test_of_two_workspaces_with_one_name_the_key_tells_which(
    prefixed: BareDeployment, database: Database, workspace: Workspace, other_workspace: Workspace
) -> None:
    async with bare_deployment(database, other_workspace, ["echo"]) as other:
        async with database.transaction() as connection:
            await connection.execute(
                "UPDATE deployments SET name = %s WHERE id = %s", (prefixed.name, other.scope.deployment_id)
            )
        url = f"{prefixed.url}{PREFIX}/threads/search"
        assert (await workspace.client.post(url, json={})).json() == []
        assert (await other_workspace.client.post(url, json={})).status_code == 404


async def test_the_control_plane_shows_the_prefix_and_finds_by_it(
    prefixed: BareDeployment, workspace: Workspace
) -> None:
    shown = (await workspace.client.get(f"/v2/deployments/{prefixed.scope.deployment_id}")).json()
    assert shown["source_config"]["custom_url"] == shown["url"] == f"{prefixed.url}{PREFIX}"

    async def found(url: str) -> list[str]:
        answer = await workspace.client.get("/v2/deployments", params={"url": url})
        return [deployment["id"] for deployment in answer.json()["resources"]]

    own = [str(prefixed.scope.deployment_id)]
    assert await found(f"{prefixed.url}{PREFIX}/") == await found(prefixed.url) == own
    assert await found(f"{prefixed.url}/other") == await found("https://example.com") == []


def test_a_prefix_cannot_hide_the_servers_own_paths() -> None:
    paths = create_agent_server().openapi()["paths"]
    for first in {path.split("/")[1] for path in paths}:
        with pytest.raises(OptionError, match="mount_prefix"):
            read_options({"http": {"mount_prefix": f"/{first}/x"}})
    assert read_options({"http": {"mount_prefix": PREFIX}}).http == {"mount_prefix": PREFIX}
