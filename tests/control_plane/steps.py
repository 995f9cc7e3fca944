"""What a client of the control plane does, as tests need it again and again."""

import asyncio
import time
from typing import Any
from uuid import uuid4

import httpx

from tests.control_plane.projects import tarball

ENDED = ("DEPLOYED", "CREATE_FAILED", "BUILD_FAILED", "DEPLOY_FAILED", "SKIPPED", "INTERRUPTED")
_SLOWEST_SECONDS = 120.0


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid4().hex[:8]}"


def creation(name: str, **fields: Any) -> dict[str, Any]:
    """The body of a deployment that is built from an upload."""
    return {
        "name": name,
        "source": "internal_source",
        "source_config": {},
        "source_revision_config": {},
        "secrets": [],
        **fields,
    }


async def create(client: httpx.AsyncClient, name: str | None = None, **fields: Any) -> dict[str, Any]:
    reply = await client.post("/v2/deployments", json=creation(name or unique("agent"), **fields))
    assert reply.status_code == 201, reply.text
    return dict(reply.json())


async def upload(client: httpx.AsyncClient, deployment_id: str, content: bytes) -> str:
    """The object path of an uploaded tarball."""
    place = (await client.post(f"/v2/deployments/{deployment_id}/upload-url", json={})).json()
    async with httpx.AsyncClient(trust_env=False, timeout=60.0) as anybody:
        reply = await anybody.put(place["upload_url"], content=content, headers=place["upload_headers"])
    assert reply.status_code == 200, reply.text
    return str(place["object_path"])


async def submit(client: httpx.AsyncClient, deployment_id: str, files: dict[str, Any], **fields: Any) -> str:
    """PATCH a deployment with a project; the id of its new revision."""
    path = await upload(client, deployment_id, tarball(files))
    body = {
        "source_revision_config": {"source_tarball_path": path, "langgraph_config_path": "langgraph.json"}
    }
    reply = await client.patch(f"/v2/deployments/{deployment_id}", json={**body, **fields})
    assert reply.status_code == 200, reply.text
    newest = (await client.get(f"/v2/deployments/{deployment_id}/revisions", params={"limit": 1})).json()
    revision_id = str(newest["resources"][0]["id"])
    assert reply.json()["latest_revision_id"] == revision_id
    return revision_id


async def revision(client: httpx.AsyncClient, deployment_id: str, revision_id: str) -> dict[str, Any]:
    reply = await client.get(f"/v2/deployments/{deployment_id}/revisions/{revision_id}")
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def wait_for_status(
    client: httpx.AsyncClient,
    deployment_id: str,
    revision_id: str,
    statuses: tuple[str, ...] = ENDED,
    seconds: float = _SLOWEST_SECONDS,
) -> dict[str, Any]:
    """The revision once it has one of the statuses."""
    deadline = time.monotonic() + seconds
    while True:
        found = await revision(client, deployment_id, revision_id)
        if found["status"] in statuses:
            return found
        assert time.monotonic() < deadline, f"waited in vain for {statuses}: {found}"
        await asyncio.sleep(0.05)


async def deploy(client: httpx.AsyncClient, deployment_id: str, files: dict[str, Any], **fields: Any) -> str:
    """Roll a project out; the id of its revision, which is DEPLOYED."""
    revision_id = await submit(client, deployment_id, files, **fields)
    found = await wait_for_status(client, deployment_id, revision_id)
    assert found["status"] == "DEPLOYED", (found, await logs(client, deployment_id, revision_id, "deploy"))
    return revision_id


async def logs(client: httpx.AsyncClient, deployment_id: str, revision_id: str, log_type: str) -> str:
    """All log lines of a type."""
    path = f"/v2/deployments/{deployment_id}/revisions/{revision_id}/logs"
    reply = await client.get(path, params={"type": log_type, "limit": 1000})
    assert reply.status_code == 200, reply.text
    return "\n".join(line["message"] for line in reply.json()["logs"])


async def logged(
    client: httpx.AsyncClient, deployment_id: str, revision_id: str, log_type: str, text: str
) -> None:
    """Wait until the log says `text`: what a worker prints arrives a moment after what it caused."""
    deadline = time.monotonic() + 20
    while text not in (found := await logs(client, deployment_id, revision_id, log_type)):
        assert time.monotonic() < deadline, f"{text!r} is not in the {log_type} log: {found}"
        await asyncio.sleep(0.05)


async def ask(client: httpx.AsyncClient, name: str, thread_id: str | None = None) -> str:
    """The last message after one run on a deployment."""
    if thread_id is None:
        thread_id = (await client.post(f"/deployments/{name}/threads", json={})).json()["thread_id"]
    reply = await client.post(
        f"/deployments/{name}/threads/{thread_id}/runs/wait",
        json={"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]}},
    )
    assert reply.status_code == 200, reply.text
    return str(reply.json()["messages"][-1]["content"])
