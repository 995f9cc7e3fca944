"""Clients that take their run with them are written down for as long as they are connected."""

from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from activities.disconnect import cancel_unwatched_runs
from api.agent_server.streams import watching
from storage.scope import DeploymentScope
from tests.runtime.harness import eventually
from tests.streams.conftest import Served


async def test_a_watcher_is_renewed_while_it_watches_and_removed_at_the_end(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LEASE_SECONDS", 0.3)
    thread_id = await streaming.thread()
    run_id = await streaming.insert_run(thread_id, "steps", {})
    scope = DeploymentScope(streaming.tenant_id, streaming.deployment_id)

    async def expiry() -> datetime | None:
        rows = await streaming.rows("SELECT expires_at FROM run_watchers WHERE run_id = %s", run_id)
        return rows[0]["expires_at"] if rows else None

    services: Any = streaming
    async with watching.watched(services, scope, thread_id, run_id, cancels=True) as watch:
        first = await expiry()
        assert first is not None

        async def renewed() -> bool:
            return bool((newest := await expiry()) and newest > first)

        await eventually(renewed)
        watch.end()

    async def removed() -> bool:
        return await expiry() is None

    await eventually(removed)
    async with watching.watched(services, scope, thread_id, run_id, cancels=False):
        assert await expiry() is None


async def test_a_run_in_the_background_has_nobody_who_could_go(streaming: Served) -> None:
    body = {"assistant_id": "steps", "input": {"done": [], "seconds": 0}, "on_disconnect": "cancel"}
    thread = await streaming.new_thread()
    run = (await streaming.http.post(f"/threads/{thread}/runs", json=body)).json()["run_id"]
    assert not await streaming.rows("SELECT FROM run_watchers WHERE run_id = %s", run)
    for path in (f"/threads/{thread}/runs/wait", "/runs/wait"):
        assert (await streaming.http.post(path, json=body)).json()["done"]
    assert (await streaming.ended(run))["status"] == "success"


async def test_a_stateless_run_whose_watcher_lapsed_is_cancelled(
    streaming: Served, temporal_client: Client
) -> None:
    body = {"assistant_id": "steps", "input": {"seconds": 60}}
    run = (await streaming.http.post("/runs", json=body)).json()["run_id"]
    async with streaming.database.connection() as connection:
        await connection.execute(
            "INSERT INTO run_watchers (watcher_id, run_id, deployment_id, tenant_id, expires_at)"
            " VALUES (%s, %s, %s, %s, now() - interval '1 s')",
            (uuid4(), run, streaming.deployment_id, streaming.tenant_id),
        )
    # Or the sweep of the stack itself, should it come first.
    await cancel_unwatched_runs(streaming.database, temporal_client)
    assert (await streaming.ended(run))["status"] == "interrupted"
    assert not await streaming.rows("SELECT FROM run_watchers WHERE run_id = %s", run)
