"""A server goes away under a working stack, and comes back; then everything ends at once."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from stack.processes import descendants, is_alive
from tests.stacks import Stack, running_stack, wait_until

pytestmark = [pytest.mark.xdist_group("outages"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def deployed() -> Iterator[Stack]:
    """A stack of its own with the demo's deployment on it."""
    with running_stack() as stack:
        result = stack.slipway("demo", "--json", timeout_seconds=280)
        assert result.returncode == 0, json.loads(result.stdout)["error"]
        yield stack


@pytest.fixture
def agent(deployed: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"{deployed.api_url}/deployments/demo",
        headers={"X-Api-Key": deployed.api_key},
        timeout=60.0,
        trust_env=False,
    ) as client:
        yield client


def _create_run(agent: httpx.Client, thread_id: str, text: str) -> httpx.Response:
    body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}}
    return agent.post(f"/threads/{thread_id}/runs", json=body)


def test_without_temporal_the_api_answers_503_and_recovers_by_itself(
    deployed: Stack, agent: httpx.Client
) -> None:
    thread_id = agent.post("/threads", json={}).json()["thread_id"]
    deployed.stop("temporal")
    refused = _create_run(agent, thread_id, "lost")
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1
    assert agent.get(f"/threads/{thread_id}").status_code == 200, "reads need no Temporal"
    assert agent.get(f"/threads/{thread_id}/runs").json() == [], "a refused run is not stored"
    assert httpx.get(f"{deployed.api_url}/readyz").status_code == 503

    deployed.start("temporal")
    wait_until(lambda: _create_run(agent, thread_id, "kept").status_code == 200, 60, "the API to accept runs")
    run = agent.get(f"/threads/{thread_id}/runs").json()[0]
    agent.get(f"/threads/{thread_id}/runs/{run['run_id']}/join")
    state = agent.get(f"/threads/{thread_id}/state").json()
    contents = [message["content"] for message in state["values"]["messages"]]
    assert contents == ["kept", 'Answer 1: you said "kept".']


def test_without_temporal_the_control_plane_answers_503_and_stores_nothing(deployed: Stack) -> None:
    with httpx.Client(
        base_url=f"{deployed.api_url}/v2",
        headers={"X-Api-Key": deployed.api_key},
        timeout=60.0,
        trust_env=False,
    ) as client:
        deployment = client.get("/deployments", params={"name_contains": "demo"}).json()["resources"][0]
        path = f"/deployments/{deployment['id']}"
        before = _records(client, path)
        creation = {
            "name": "refused",
            "source": "internal_source",
            "source_config": {},
            "source_revision_config": {},
            "secrets": [],
        }
        deployed.stop("temporal")
        for method, address, body in (
            ("POST", "/deployments", creation),
            ("PATCH", path, {"secrets": [{"name": "TOKEN", "value": "refused"}]}),
            ("POST", f"{path}/revisions", {}),
            ("POST", f"{path}/revisions/{deployment['active_revision_id']}/redeploy", None),
            ("DELETE", path, None),
        ):
            refused = client.request(method, address, json=body)
            assert refused.status_code == 503, (method, address, refused.text)
            assert int(refused.headers["Retry-After"]) >= 1
        assert _records(client, path) == before, "reads work, and nothing was stored"

        deployed.start("temporal")
        wait_until(
            lambda: client.post("/deployments", json=creation).status_code == 201,
            60,
            "the API to deploy again",
        )
        assert [found["name"] for found in _records(client, path)["deployments"]].count("refused") == 1


def _records(client: httpx.Client, path: str) -> dict[str, list[dict[str, object]]]:
    """What there is of deployments, and of the revisions of one."""
    return {
        "deployments": client.get("/deployments").json()["resources"],
        "revisions": client.get(f"{path}/revisions").json()["resources"],
    }


def test_without_postgresql_the_api_answers_503_and_recovers_by_itself(
    deployed: Stack, agent: httpx.Client
) -> None:
    thread_id = agent.post("/threads", json={}).json()["thread_id"]
    deployed.stop("postgres")
    refused = agent.post("/threads", json={})
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1

    deployed.start("postgres")
    wait_until(lambda: _create_run(agent, thread_id, "kept").status_code == 200, 60, "the API to accept runs")
    run = agent.get(f"/threads/{thread_id}/runs").json()[0]
    agent.get(f"/threads/{thread_id}/runs/{run['run_id']}/join")
    assert agent.get(f"/threads/{thread_id}/runs/{run['run_id']}").json()["status"] == "success"


def test_revision_workers_end_with_a_killed_supervisor(deployed: Stack) -> None:
    """Last in this file: nothing of the stack is left after it."""
    started = descendants(deployed.supervisor_pid)
    commands = [_command(pid) for pid in started]
    assert any("slipway_runtime" in command for command in commands), "a revision worker runs"
    os.kill(deployed.supervisor_pid, 9)
    wait_until(lambda: not any(is_alive(pid) for pid in started), 30, "every process to end")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""
