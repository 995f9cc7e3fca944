"""What a run's creation refuses: a clear answer, and nothing changed."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.conftest import Workspace
from tests.served import Served
from tests.stacks import Stack

GOOD: dict[str, Any] = {"assistant_id": "chat", "input": {"messages": []}}


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"assistant_id": "nobody"}, 422, "Invalid assistant: 'nobody'"),
        ({"assistant_id": str(uuid4())}, 404, "Thread or assistant not found."),
        ({"assistant_id": None}, 422, "assistant_id"),
        ({"multitask_strategy": "zzz"}, 422, "multitask_strategy"),
        ({"stream_mode": ["tools"]}, 422, "stream_mode"),
        ({"after_seconds": -1}, 422, "after_seconds"),
        ({"after_seconds": 1e300}, 422, "after_seconds"),
        ({"metadata": {"x": "y" * 70_000}}, 422, "metadata"),
        ({"metadata": {"x": "nul \u0000"}}, 422, "NUL"),
        ({"config": {"recursion_limit": 0}}, 422, "recursion_limit"),
        ({"config": {"configurable": {"a": 1}}, "context": {"b": 2}}, 400, "context"),
        ({"durability": "never"}, 422, "durability"),
    ],
)
async def test_bad_field_is_refused_and_nothing_is_created(
    http: httpx.AsyncClient, thread_id: str, change: dict[str, Any], status: int, said: str
) -> None:
    answer = await http.post(f"/threads/{thread_id}/runs", json={**GOOD, **change})
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]
    assert (await http.get(f"/threads/{thread_id}/runs")).json() == []
    assert (await http.get(f"/threads/{thread_id}")).json()["status"] == "idle"


@pytest.mark.parametrize("content", [b"", b"{", b"[1", b"\xff\xfe"])
async def test_broken_body_is_a_422(http: httpx.AsyncClient, thread_id: str, content: bytes) -> None:
    answer = await http.post(f"/threads/{thread_id}/runs", content=content)
    assert (answer.status_code, answer.json()["detail"]) == (422, "Invalid JSON in request body")


async def test_malformed_and_unknown_ids(http: httpx.AsyncClient, thread_id: str) -> None:
    assert (await http.get("/threads/nonsense")).json()["detail"] == "Invalid thread ID: must be a UUID"
    answer = await http.get(f"/threads/{thread_id}/runs/nonsense")
    assert (answer.status_code, answer.json()["detail"]) == (422, "Invalid run ID: must be a UUID")
    unknown = uuid4()
    for path in (
        f"/threads/{unknown}",
        f"/threads/{unknown}/runs",
        f"/threads/{thread_id}/runs/{unknown}",
        f"/threads/{thread_id}/runs/{unknown}/join",
        f"/threads/{unknown}/state",
    ):
        assert (await http.get(path)).status_code == 404, path
    assert (await http.post(f"/threads/{unknown}/runs", json=GOOD)).status_code == 404
    assert (await http.post(f"/threads/{thread_id}/runs/{unknown}/cancel")).status_code == 404
    assert (await http.delete(f"/threads/{thread_id}/runs/{unknown}")).status_code == 404


async def test_body_over_the_limit_is_a_413(http: httpx.AsyncClient, thread_id: str) -> None:
    answer = await http.post(f"/threads/{thread_id}/runs", content=b" " * (26 * 1024 * 1024))
    assert answer.status_code == 413
    assert "too large" in answer.json()["detail"]


async def test_key_is_needed_and_must_be_valid(stack: Stack, served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.url(stack.api_url), trust_env=False) as client:
        assert (await client.post("/threads", json={})).status_code == 401
        wrong = await client.post("/threads", json={}, headers={"X-Api-Key": "slw_wrong"})
        assert wrong.status_code == 401
        bearer = {"Authorization": f"Bearer {served.api_key}"}
        assert (await client.post("/threads", json={}, headers=bearer)).status_code == 200
        foreign = {"X-Api-Key": served.api_key, "X-Tenant-Id": str(uuid4())}
        assert (await client.post("/threads", json={}, headers=foreign)).status_code == 403
        assert (await client.get("/ok")).status_code == 200


async def test_another_workspace_sees_nothing(
    http: httpx.AsyncClient, served: Served, thread_id: str, workspace: Workspace
) -> None:
    base = f"/deployments/{served.name}"
    for path in ("", "/state", "/runs"):
        assert (await workspace.client.get(f"{base}/threads/{thread_id}{path}")).status_code == 404
    answer = await workspace.client.post(f"{base}/threads/{thread_id}/runs", json=GOOD)
    assert answer.status_code == 404
    assert (await http.get(f"/threads/{thread_id}/runs")).json() == []
