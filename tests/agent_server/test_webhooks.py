"""Webhooks: signed, retried, and only where they may go (agent server contract §7)."""

import asyncio
import base64
import hashlib
import hmac
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from cryptography.fernet import Fernet

from activities.webhook import WebhookActivities
from storage.database import Database
from storage.secrets import SecretBox
from storage.webhook_policy import webhook_problem
from tests.agent_server.bare_deployment import bare_deployment
from tests.agent_server.conftest import Deployment
from tests.conftest import Workspace
from workflows.messages.webhook import DeliverWebhook


@dataclass
class Receiver:
    """Answers with the statuses it was given, then with 200; keeps what came."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        self.received.append((dict(request.headers), await request.read()))
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.arrived.set()
        return web.Response(status=status)

    async def body(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            await self.arrived.wait()
        document: dict[str, Any] = json.loads(self.received[-1][1])
        return document


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncIterator[Receiver]:
    receiver = Receiver(statuses=list(statuses))
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    receiver.url = f"http://127.0.0.1:{port}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()


async def test_the_end_of_a_run_is_told_with_its_values(deployment: Deployment) -> None:
    async with receiving() as receiver:
        thread = await deployment.sdk.threads.create()
        run = await deployment.sdk.runs.create(
            thread["thread_id"],
            "echo",
            input={"messages": [{"role": "user", "content": "hi"}]},
            webhook=receiver.url,
            metadata={"mine": 1},
        )
        body = await receiver.body()
    assert (body["run_id"], body["thread_id"]) == (run["run_id"], thread["thread_id"])
    assert (body["status"], body["error"]) == ("success", None)
    assert [message["content"] for message in body["values"]["messages"]] == ["hi", "echo: hi"]
    assert body["metadata"]["mine"] == 1 and body["kwargs"]["webhook"] == receiver.url
    assert body["run_started_at"] and body["run_ended_at"] and body["webhook_sent_at"]


async def test_what_is_sent_is_signed_with_the_deployments_secret(deployment: Deployment) -> None:
    secret = (await deployment.client.get("/webhooks/secret")).json()["secret"]
    assert secret.startswith("whsec_")
    assert (await deployment.client.get("/webhooks/secret")).json()["secret"] == secret
    async with receiving() as receiver:
        await deployment.sdk.runs.wait(
            None, "echo", input={"messages": [{"role": "user", "content": "hi"}]}, webhook=receiver.url
        )
        await receiver.body()
    headers, body = receiver.received[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


async def test_a_receiver_that_fails_gets_the_same_again(deployment: Deployment) -> None:
    async with receiving(500, 429) as receiver:
        await deployment.sdk.runs.wait(None, "failing", input={}, webhook=receiver.url, raise_error=False)
        body = await receiver.body()
    assert len(receiver.received) == 3
    assert len({content for _, content in receiver.received}) == 1
    assert len({headers["webhook-id"] for headers, _ in receiver.received}) == 1
    assert body["status"] == "error" and body["error"]["message"] == "told to fail"


async def test_a_cancelled_run_is_told_once_and_the_queue_goes_on(deployment: Deployment) -> None:
    async with receiving() as receiver:
        thread_id = (await deployment.sdk.threads.create())["thread_id"]
        slow = await deployment.sdk.runs.create(thread_id, "steps", input={"ms": 5_000}, webhook=receiver.url)
        after = await deployment.sdk.runs.create(thread_id, "steps", input={"ms": 1})
        await deployment.sdk.runs.cancel(thread_id, slow["run_id"])
        await deployment.sdk.runs.join(thread_id, after["run_id"])
        assert (await receiver.body())["status"] == "interrupted"
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    "url",
    [
        "/relative",
        "ftp://example.com",
        "http://",
        "http://user:secret@example.com",
        "http://example.com/ space",
        "http://example.com:99999",
        "http://example.com/" + "x" * 5_000,
    ],
)
async def test_bad_addresses_are_refused_when_the_run_is_created(deployment: Deployment, url: str) -> None:
    thread_id = (await deployment.sdk.threads.create())["thread_id"]
    body = {"assistant_id": "echo", "webhook": url}
    answer = await deployment.client.post(f"/threads/{thread_id}/runs", json=body)
    assert answer.status_code == 422 and "webhook" in answer.json()["detail"]
    assert await deployment.sdk.runs.list(thread_id) == []
    cron = await deployment.client.post("/runs/crons", json={**body, "schedule": "0 0 1 1 *"})
    assert cron.status_code == 422


@pytest.mark.parametrize(
    ("url", "policy", "allow_private", "refused"),
    [
        ("https://example.com/x", {}, False, False),
        ("http://127.0.0.1/x", {}, True, False),
        ("http://127.0.0.1/x", {}, False, True),
        ("http://localhost/x", {}, False, True),
        ("http://[::1]/x", {}, False, True),
        ("http://[::ffff:127.0.0.1]/x", {}, False, True),
        ("http://10.1.2.3/x", {}, False, True),
        ("http://169.254.169.254/latest", {}, False, True),
        ("http://127.0.0.1/x", {"disable_loopback": True}, True, True),
        ("http://[::ffff:127.0.0.1]/x", {"disable_loopback": True}, True, True),
        ("http://10.1.2.3/x", {"disable_loopback": True}, True, False),
        ("http://example.com/x", {"require_https": True}, False, True),
        ("https://example.com/x", {"require_https": True, "allowed_ports": [443]}, False, False),
        ("https://example.com:8443/x", {"allowed_ports": [443]}, False, True),
        ("https://a.example.com/x", {"allowed_domains": ["*.example.com"]}, False, False),
        (
            "https://example.com.evil.org/x",
            {"allowed_domains": ["example.com", "*.example.com"]},
            False,
            True,
        ),
        ("https://example.com/x", {"allowed_domains": ["*.example.com"]}, False, True),
        ("https://example.com/" + "x" * 50, {"max_url_length": 40}, False, True),
    ],
)
def test_the_policy_says_where_webhooks_may_go(
    url: str, policy: dict[str, Any], allow_private: bool, refused: bool
) -> None:
    assert (webhook_problem(url, policy, allow_private) is not None) is refused


async def test_a_name_that_leads_inside_is_refused_at_delivery(
    database: Database, workspace: Workspace
) -> None:
    """A host's own name passes the check of the text; its address is checked when it is resolved."""
    box = SecretBox([Fernet.generate_key().decode()])
    async with receiving() as receiver, bare_deployment(database, workspace, ["echo"]) as bare:
        port = receiver.url.split(":")[2].split("/")[0]
        activities = WebhookActivities(database, box, allow_private_endpoints=False)
        run_id, thread_id = await _ended_run(database, bare.scope.deployment_id, workspace, port)
        refused = await activities.deliver(DeliverWebhook(str(thread_id), str(run_id)))
        assert refused.refused is not None and "blocked" in refused.refused
        assert receiver.received == []


async def _ended_run(
    database: Database, deployment_id: UUID, workspace: Workspace, port: str
) -> tuple[UUID, UUID]:
    """A run whose webhook names this host by a name that only its resolver knows."""
    thread_id, run_id = uuid4(), uuid4()
    kwargs = json.dumps({"webhook": f"http://{socket.gethostname()}:{port}/hook"})
    async with database.transaction() as connection:
        await connection.execute(
            "INSERT INTO threads (thread_id, deployment_id, tenant_id) VALUES (%s, %s, %s)",
            (thread_id, deployment_id, workspace.tenant_id),
        )
        await connection.execute(
            "INSERT INTO runs (run_id, thread_id, deployment_id, tenant_id, assistant_id, graph_id, status, kwargs)"
            " VALUES (%s, %s, %s, %s, %s, 'echo', 'success', %s)",
            (run_id, thread_id, deployment_id, workspace.tenant_id, uuid4(), kwargs),
        )
    return run_id, thread_id
