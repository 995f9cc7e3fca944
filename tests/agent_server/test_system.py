"""Health, information, metrics and the API reference of a deployment (contract §3.1)."""

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from prometheus_client.parser import text_string_to_metric_families

from tests.agent_server.conftest import Deployment
from tests.conftest import Workspace


@pytest.fixture
async def keyless(deployment: Deployment) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=deployment.url, timeout=30, trust_env=False) as client:
        yield client


async def test_health_needs_no_key(keyless: httpx.AsyncClient) -> None:
    assert (await keyless.get("/ok")).json() == {"ok": True, "services": {}}
    assert (await keyless.get("/")).json() == {"ok": True, "services": {}}
    checked = await keyless.get("/ok", params={"check_db": "1"})
    assert checked.json() == {"ok": True, "services": {"postgres": "healthy"}}


async def test_information_names_the_serving_revision(
    keyless: httpx.AsyncClient, deployment: Deployment
) -> None:
    info = (await keyless.get("/info")).json()
    assert info["flags"]["assistants"] is True
    assert info["langgraph_py_version"]
    assert info["host"]["revision_id"] == deployment.revision_id
    assert info["host"]["project_id"] == deployment.deployment_id
    assert (await keyless.get(f"{deployment.url}-none/info")).status_code == 404


async def test_everything_else_needs_a_key(keyless: httpx.AsyncClient, workspace: Workspace) -> None:
    for method, path in (("POST", "/threads"), ("POST", "/assistants/search"), ("GET", "/metrics")):
        answer = await keyless.request(method, path, json={})
        assert answer.status_code == 401
        assert isinstance(answer.json()["detail"], str)
        answer = await keyless.request(method, path, json={}, headers={"X-Api-Key": workspace.api_key})
        assert answer.status_code == 404
    assert (await keyless.get("/metrics", headers={"X-Api-Key": "wrong"})).status_code == 401


async def test_unknown_routes_and_methods(deployment: Deployment) -> None:
    answer = await deployment.client.get("/nothing/here")
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})
    answer = await deployment.client.put("/threads", json={})
    assert (answer.status_code, answer.json()) == (405, {"detail": "Method Not Allowed"})


async def test_metrics_in_both_forms(deployment: Deployment, sdk: LangGraphClient) -> None:
    thread = await sdk.threads.create()
    await sdk.runs.create(thread["thread_id"], "steps", input={"ms": 300, "done": []})
    await sdk.runs.create(thread["thread_id"], "steps", input={"ms": 0, "done": []}, after_seconds=600)
    run = await sdk.runs.create(thread["thread_id"], "steps", input={"ms": 0, "done": []})
    shown = (await deployment.client.get("/metrics", params={"format": "json"})).json()
    assert shown["queue"].keys() == {
        "n_pending",
        "n_running",
        "pending_runs_wait_time_max_secs",
        "pending_runs_wait_time_med_secs",
        "pending_unblocked_runs_wait_time_max_secs",
    }
    assert shown["queue"]["n_pending"] >= 2
    assert shown["workers"]["max"] >= 1
    assert shown["workers"]["available"] <= shown["workers"]["max"]
    created = [row for row in shown["api"]["http_requests_total"] if row["path"] == "/threads"]
    assert created[0].items() >= {"method": "POST", "status": 200}.items()
    text = await deployment.client.get("/metrics")
    assert text.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text.text)}
    assert families["slipway_queue_pending"].samples[0].value >= 1
    assert families["slipway_http_requests"].samples
    assert (await deployment.client.get("/metrics", params={"format": "xml"})).status_code == 422
    await sdk.runs.join(thread["thread_id"], run["run_id"])
    await sdk.threads.delete(thread["thread_id"])


async def test_the_document_knows_the_graphs(keyless: httpx.AsyncClient) -> None:
    document = (await keyless.get("/openapi.json")).json()
    graphs = ["asking", "counter", "echo", "failing", "nested", "steps"]
    assert document["components"]["schemas"]["AssistantCreate"]["properties"]["graph_id"]["enum"] == graphs
    assert document["servers"] == [{"url": "/deployments/agent-server-tests"}]


async def test_every_operation_is_described(keyless: httpx.AsyncClient) -> None:
    document = (await keyless.get("/openapi.json")).json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("summary"), f"{method} {path} has no summary"
            assert operation.get("tags"), f"{method} {path} has no tag"
            successes = [status for status in operation["responses"] if status.startswith("2")]
            assert successes, f"{method} {path} has no success"
            if path not in ("/ok", "/info"):
                assert {"401", "404", "422", "503"} <= operation["responses"].keys(), f"{method} {path}"


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("src", "href") and value]


async def test_the_reference_asks_no_other_host(keyless: httpx.AsyncClient, deployment: Deployment) -> None:
    for base in (deployment.url, deployment.url.rsplit("/deployments/", 1)[0]):
        page = await keyless.get(f"{base}/docs")
        assert page.status_code == 200
        parser = _Addresses()
        parser.feed(page.text)
        scripted = re.findall(r"url: '([^']+)'", page.text)
        assert len(parser.found) == 3
        assert len(scripted) == 1
        for address in [*parser.found, *scripted]:
            absolute = urljoin(f"{base}/docs", address)
            assert urlsplit(absolute).netloc == urlsplit(base).netloc
            loaded = await keyless.get(absolute)
            assert loaded.status_code == 200, absolute
            assert len(loaded.content) > 500
    assert (await keyless.get("/docs/assets/other.js")).status_code == 404
