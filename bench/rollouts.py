"""How long a warm rollout and a rollback take, against a running stack.

    SLIPWAY_HOME=… python -m bench.rollouts [--rounds 10]

Warm: the project's code changes, its dependencies do not. Measured from the PATCH (or redeploy) until the API says
DEPLOYED (or names the older revision as active), polled every 20 ms.
"""

import argparse
import io
import json
import statistics
import tarfile
import time
from pathlib import Path
from uuid import uuid4

import httpx

from settings import load_settings

_AGENT = """
from typing import TypedDict
from langgraph.graph import START, StateGraph

class State(TypedDict, total=False):
    answer: str

graph = StateGraph(State).add_node("answer", lambda state: {"answer": "ROUND"}).add_edge(START, "answer").compile()
"""
_POLL_SECONDS = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    settings = load_settings()
    key = Path(settings.home / "api-key").read_text().strip()
    with httpx.Client(
        base_url=settings.api_url, headers={"X-Api-Key": key}, timeout=60, trust_env=False
    ) as client:
        body = {"name": f"bench-{uuid4().hex[:8]}", "source": "internal_source", "secrets": []}
        made = client.post(
            "/v2/deployments", json={**body, "source_config": {}, "source_revision_config": {}}
        )
        path = f"/v2/deployments/{made.raise_for_status().json()['id']}"
        try:
            _print("first (cold cache of environments)", [_roll_out(client, path, 0)[0]])
            rolled_out = [_roll_out(client, path, number + 1) for number in range(rounds)]
            _print("warm rollout, PATCH to DEPLOYED", [seconds for seconds, _ in rolled_out])
            revisions = [revision for _, revision in rolled_out]
            _print(
                "rollback, redeploy to active",
                [_roll_back(client, path, revision) for revision in revisions[:-1]],
            )
        finally:
            client.delete(path)


def _roll_out(client: httpx.Client, path: str, number: int) -> tuple[float, str]:
    """Seconds, and the revision."""
    place = client.post(f"{path}/upload-url", json={}).json()
    httpx.put(place["upload_url"], content=_tarball(number), trust_env=False).raise_for_status()
    begun = time.perf_counter()
    body = {"source_revision_config": {"source_tarball_path": place["object_path"]}}
    revision = client.patch(path, json=body).raise_for_status().json()["latest_revision_id"]
    while (status := client.get(f"{path}/revisions/{revision}").json()["status"]) != "DEPLOYED":
        if status.endswith("FAILED"):
            raise SystemExit(f"The rollout ended as {status}.")
        time.sleep(_POLL_SECONDS)
    return time.perf_counter() - begun, revision


def _roll_back(client: httpx.Client, path: str, revision: str) -> float:
    begun = time.perf_counter()
    client.post(f"{path}/revisions/{revision}/redeploy").raise_for_status()
    while client.get(path).json()["active_revision_id"] != revision:
        time.sleep(_POLL_SECONDS)
    return time.perf_counter() - begun


def _tarball(number: int) -> bytes:
    config = {"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}
    files = {"agent.py": _AGENT.replace("ROUND", str(number)), "langgraph.json": json.dumps(config)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _print(what: str, seconds: list[float]) -> None:
    values = sorted(seconds)
    print(
        f"{what}: median {statistics.median(values):.2f} s, best {values[0]:.2f} s, worst {values[-1]:.2f} s"
    )


if __name__ == "__main__":
    main()
