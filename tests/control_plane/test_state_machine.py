"""Whatever users do in whatever order: revisions only ever move along their table (control plane contract §3.2)."""

import time
from typing import Any

import httpx
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import Workspace
from tests.control_plane.projects import config, echo, tarball
from tests.control_plane.steps import creation, unique
from workflows.messages.rollout import TERMINAL, TRANSITIONS, RevisionStatus

_PROJECTS = {
    "good": echo(),
    "no build": {"agent.py": "", "langgraph.json": config(surprise=1)},
    "no import": {"agent.py": "import nowhere", "langgraph.json": config()},
}


def _reachable(status: str) -> set[str]:
    """Every status that may come after one, directly or not: a poll may miss what lies between."""
    found: set[str] = set()
    waiting = {RevisionStatus(status)}
    while waiting:
        for after in TRANSITIONS[waiting.pop()]:
            if after not in found:
                found.add(after)
                waiting.add(after)
    return found


class Users(RuleBasedStateMachine):
    """One deployment, and everything that may be done to it."""

    revisions = Bundle("revisions")
    client: httpx.Client

    @initialize()
    def create(self) -> None:
        reply = self.client.post("/v2/deployments", json=creation(unique("machine")))
        assert reply.status_code == 201, reply.text
        self.path = f"/v2/deployments/{reply.json()['id']}"
        self.seen: dict[str, str] = {}

    @rule(target=revisions, project=st.sampled_from(sorted(_PROJECTS)))
    def submit(self, project: str) -> Any:
        place = self.client.post(f"{self.path}/upload-url", json={}).json()
        httpx.put(
            place["upload_url"], content=tarball(_PROJECTS[project]), trust_env=False
        ).raise_for_status()
        body = {"source_revision_config": {"source_tarball_path": place["object_path"]}}
        reply = self.client.patch(self.path, json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()["latest_revision_id"]

    @rule(target=revisions)
    def change_secrets(self) -> Any:
        body = {"secrets": [{"name": "STAMP", "value": str(time.time_ns())}]}
        reply = self.client.patch(self.path, json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()["latest_revision_id"] or multiple()

    @rule(revision=revisions)
    def redeploy(self, revision: str) -> None:
        reply = self.client.post(f"{self.path}/revisions/{revision}/redeploy")
        assert reply.status_code in (200, 400), reply.text

    @rule(revision=consumes(revisions))
    def interrupt(self, revision: str) -> None:
        reply = self.client.post(f"{self.path}/revisions/{revision}/interrupt")
        assert reply.status_code in (200, 400), reply.text

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.look()
            time.sleep(0.05)

    @invariant()
    def moves_along_the_table(self) -> None:
        if hasattr(self, "path"):
            self.look()

    def look(self) -> list[dict[str, Any]]:
        """All revisions; each must stand where its last status may lead."""
        listed = self.client.get(f"{self.path}/revisions", params={"limit": 100}).json()["resources"]
        for revision in listed:
            before, now = self.seen.get(revision["id"], "CREATING"), revision["status"]
            assert now == before or now in _reachable(before), (before, now)
            self.seen[revision["id"]] = now
            if now.endswith("FAILED"):
                assert revision["status_message"], revision
        deployment = self.client.get(self.path).json()
        newest = self.client.get(f"{self.path}/revisions", params={"limit": 1}).json()["resources"][0]
        assert deployment["latest_revision_id"] in {newest["id"], *self.seen}
        return list(listed)

    def teardown(self) -> None:
        """Everything ends, and then the deployment goes."""
        if not hasattr(self, "path"):
            return
        deadline = time.monotonic() + 120
        waiting_for_source = "Waits for its source"
        while any(
            revision["status"] not in TERMINAL
            and waiting_for_source not in (revision["status_message"] or "")
            for revision in self.look()
        ):
            assert time.monotonic() < deadline, self.look()
            time.sleep(0.2)
        assert self.client.delete(self.path).status_code == 204
        while self.client.get(self.path).status_code != 404:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.timeout(600)
def test_revisions_never_leave_their_table(workspace: Workspace) -> None:
    with httpx.Client(
        base_url=workspace.api_url, headers={"X-Api-Key": workspace.api_key}, timeout=60.0, trust_env=False
    ) as client:
        Users.client = client
        run_state_machine_as_test(
            Users,
            settings=settings(
                max_examples=4,
                stateful_step_count=8,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
