"""A server goes away under a working stack, and comes back; nothing of what was refused is stored."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from storage.database import Database
from tests.conftest import Workspace, new_workspace
from tests.control_plane.projects import ECHO, config
from tests.control_plane.steps import create, creation, deploy, unique
from tests.stacks import Stack

pytestmark = pytest.mark.timeout(400)

_ANSWERS = ECHO.replace("VERSION", "an answer")


@pytest.fixture
async def workspace(killable_stack: Stack) -> AsyncIterator[Workspace]:
    async with (
        Database(killable_stack.database_url, 2) as database,
        new_workspace(killable_stack, database) as workspace,
    ):
        yield workspace


@pytest.fixture
async def agent(workspace: Workspace) -> AsyncIterator[str]:
    """The path of a deployment that answers."""
    deployment = await create(workspace.client)
    await deploy(workspace.client, deployment["id"], {"agent.py": _ANSWERS, "langgraph.json": config()})
    yield f"/deployments/{deployment['name']}"
    await workspace.client.delete(f"/v2/deployments/{deployment['id']}")


async def test_without_temporal_the_api_answers_503_and_recovers_by_itself(
    killable_stack: Stack, workspace: Workspace, agent: str
) -> None:
    client = workspace.client
    thread = f"{agent}/threads/{(await client.post(f'{agent}/threads', json={})).json()['thread_id']}"
    killable_stack.stop("temporal")
    _require_refused(await _create_run(client, thread, "lost"))
    assert (await client.get(thread)).status_code == 200, "reads need no Temporal"
    assert (await client.get(f"{thread}/runs")).json() == [], "a refused run is not stored"
    assert (await client.get("/readyz")).status_code == 503

    killable_stack.start("temporal")
    await _until(lambda: _is_accepted(client, thread))
    assert await _contents(client, thread) == ["kept", "an answer"]


async def test_without_temporal_the_control_plane_answers_503_and_stores_nothing(
    killable_stack: Stack, workspace: Workspace, agent: str
) -> None:
    client = workspace.client
    [deployment] = (await client.get("/v2/deployments")).json()["resources"]
    path = f"/v2/deployments/{deployment['id']}"
    before = await _records(client, path)
    refused_name = unique("refused")
    killable_stack.stop("temporal")
    for method, address, body in (
        ("POST", "/v2/deployments", creation(refused_name)),
        ("PATCH", path, {"secrets": [{"name": "TOKEN", "value": "refused"}]}),
        ("POST", f"{path}/revisions", {}),
        ("POST", f"{path}/revisions/{deployment['active_revision_id']}/redeploy", None),
        ("DELETE", path, None),
    ):
        _require_refused(await client.request(method, address, json=body))
    assert await _records(client, path) == before, "reads work, and nothing was stored"

    killable_stack.start("temporal")

    async def is_created() -> bool:
        return (await client.post("/v2/deployments", json=creation(refused_name))).status_code == 201

    await _until(is_created)
    names = [found["name"] for found in (await _records(client, path))["deployments"]]
    assert names.count(refused_name) == 1


async def test_without_postgresql_the_api_answers_503_and_recovers_by_itself(
    killable_stack: Stack, workspace: Workspace, agent: str
) -> None:
    client = workspace.client
    thread = f"{agent}/threads/{(await client.post(f'{agent}/threads', json={})).json()['thread_id']}"
    killable_stack.stop("postgres")
    _require_refused(await client.post(f"{agent}/threads", json={}))

    killable_stack.start("postgres")
    await _until(lambda: _is_accepted(client, thread))
    assert await _contents(client, thread) == ["kept", "an answer"]


def _require_refused(reply: httpx.Response) -> None:
    assert reply.status_code == 503, (reply.request.method, reply.request.url, reply.text)
    assert int(reply.headers["Retry-After"]) >= 1


async def _create_run(client: httpx.AsyncClient, thread: str, text: str) -> httpx.Response:
    body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}}
    return await client.post(f"{thread}/runs", json=body)


async def _is_accepted(client: httpx.AsyncClient, thread: str) -> bool:
    return (await _create_run(client, thread, "kept")).status_code == 200


async def _contents(client: httpx.AsyncClient, thread: str) -> list[str]:
    """What the state says once its only run has ended."""
    [run] = (await client.get(f"{thread}/runs")).json()
    await client.get(f"{thread}/runs/{run['run_id']}/join")
    state = (await client.get(f"{thread}/state")).json()
    return [message["content"] for message in state["values"]["messages"]]


async def _records(client: httpx.AsyncClient, path: str) -> dict[str, list[dict[str, object]]]:
    """What there is of deployments, and of the revisions of one."""
    return {
        "deployments": (await client.get("/v2/deployments")).json()["resources"],
        "revisions": (await client.get(f"{path}/revisions")).json()["resources"],
    }


async def _until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "the API does not recover"
        await asyncio.sleep(0.1)
