"""`kill -9` of the platform's worker while crons fire and a webhook is sent: nothing is lost, nothing done twice.

On a stack of its own, which is killed once in the middle of all of it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aiohttp import web
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from temporalio.client import Client

from storage.database import Database
from tests.runtime.harness import eventually
from tests.served import Served
from tests.stacks import Stack
from workflows.messages import names
from workflows.messages.cron import Firing

pytestmark = pytest.mark.timeout(400)

PROJECT = Path(__file__).parent / "project"
YEARLY = "0 0 1 1 *"
# A lost attempt is missed when its time is over: 30 s for a firing, 60 s for a delivery.
_SECONDS = 150.0


@dataclass
class Receiver:
    """Keeps what comes; the first request gets its answer only when the test lets it go."""

    url: str = ""
    received: list[tuple[str, bytes]] = field(default_factory=list)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        self.received.append((request.headers["webhook-id"], await request.read()))
        if len(self.received) == 1:
            await self.let_go.wait()
        return web.Response()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        receiver.let_go.set()
        await runner.cleanup()


@asynccontextmanager
async def serving(stack: Stack) -> AsyncIterator[tuple[Served, LangGraphClient]]:
    """A deployment on that stack, with a revision's worker of the test's own, which is not killed."""
    async with Database(stack.database_url, 5) as database:
        served = Served(database, await Client.connect(stack.temporal_address), PROJECT)
        try:
            await served.publish(["echo"])
            async with get_client(url=served.url(stack.api_url), api_key=served.api_key) as sdk:
                yield served, sdk
        finally:
            served.end()


@asynccontextmanager
async def holding(served: Served, lock: str, row_id: str) -> AsyncIterator[Callable[[], Any]]:
    """Hold a row; what it yields says whether somebody waits for it."""
    async with await psycopg.AsyncConnection.connect(served.database.url) as holder:
        await holder.execute(lock.encode(), (row_id,))
        pid = holder.info.backend_pid

        async def is_awaited() -> bool:
            row = await served.one(
                "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))", pid
            )
            return bool(row["count"])

        yield is_awaited
        await holder.rollback()


async def test_what_was_under_way_is_done_exactly_once(killable_stack: Stack) -> None:
    stack = killable_stack
    async with serving(stack) as (served, sdk), receiving() as receiver:
        told = await _thread_with_run(sdk, receiver.url)
        uncommitted, committed = await _cron(sdk, "a"), await _cron(sdk, "b")
        async with (
            # The first firing stops inside of its transaction, the second after its commit.
            holding(
                served, "SELECT FROM threads WHERE thread_id = %s FOR UPDATE", uncommitted.thread_id
            ) as first,
            holding(
                served, "SELECT FROM crons WHERE cron_id = %s FOR NO KEY UPDATE", committed.cron_id
            ) as second,
        ):
            for cron in (uncommitted, committed):
                await served.client.get_schedule_handle(names.cron_schedule_id(cron.cron_id)).trigger()
            await eventually(first)
            await eventually(second)
            await eventually(lambda: _as_async(receiver.received))
            assert await _runs(sdk, uncommitted) == [] and len(await _runs(sdk, committed)) == 1
            killed = stack.kill("worker-platform")
        receiver.let_go.set()
        # What is told of the first run may not change with a second one.
        await sdk.runs.create(told.thread_id, "echo", input=_say("later"))
        await asyncio.to_thread(stack.wait_restarted, "worker-platform", killed)
        async with asyncio.timeout(_SECONDS):
            for cron, text in ((uncommitted, "a"), (committed, "b")):
                await _fired_once(served, sdk, cron, text)
            await _told_twice_alike(served, sdk, told, receiver)


@dataclass(frozen=True)
class _Cron:
    cron_id: str
    thread_id: str


@dataclass(frozen=True)
class _Told:
    thread_id: str
    run_id: str


async def _thread_with_run(sdk: LangGraphClient, webhook: str) -> _Told:
    thread_id = str((await sdk.threads.create())["thread_id"])
    run = await sdk.runs.create(thread_id, "echo", input=_say("first"), webhook=webhook)
    return _Told(thread_id, run["run_id"])


async def _cron(sdk: LangGraphClient, text: str) -> _Cron:
    thread_id = str((await sdk.threads.create())["thread_id"])
    cron: Any = await sdk.crons.create_for_thread(thread_id, "echo", schedule=YEARLY, input=_say(text))
    return _Cron(cron["cron_id"], thread_id)


async def _fired_once(served: Served, sdk: LangGraphClient, cron: _Cron, text: str) -> None:
    """The firing ends well; it has made one run, which was executed once."""
    schedule = served.client.get_schedule_handle(names.cron_schedule_id(cron.cron_id))
    actions = (await schedule.describe()).info.recent_actions
    assert len(actions) == 1
    workflow_id = actions[0].action.workflow_id  # type: ignore[union-attr]
    firing: Firing = await served.client.get_workflow_handle(workflow_id, result_type=Firing).result()
    assert [run["run_id"] for run in await _runs(sdk, cron)] == [firing.run_id]
    values: Any = await sdk.runs.join(cron.thread_id, str(firing.run_id))
    assert [message["content"] for message in values["messages"]] == [text, f"echo: {text}"]
    firings = await served.rows("SELECT run_id::text FROM cron_firings WHERE cron_id = %s", cron.cron_id)
    assert [row["run_id"] for row in firings] == [firing.run_id]


async def _told_twice_alike(served: Served, sdk: LangGraphClient, told: _Told, receiver: Receiver) -> None:
    """The delivery whose answer was lost is repeated, to the byte; then it is over."""
    await served.client.get_workflow_handle(names.webhook_workflow_id(told.run_id)).result()
    assert len(receiver.received) == 2
    assert receiver.received[0] == receiver.received[1]
    assert receiver.received[0][0] == told.run_id
    assert b"later" not in receiver.received[0][1]
    assert await served.rows("SELECT FROM webhook_deliveries WHERE run_id = %s", told.run_id) == []
    state: Any = await sdk.threads.get_state(told.thread_id)
    assert [message["content"] for message in state["values"]["messages"]][2:] == ["later", "echo: later"]


async def _runs(sdk: LangGraphClient, cron: _Cron) -> list[Any]:
    return list(await sdk.runs.list(cron.thread_id))


async def _as_async(value: Any) -> Any:
    return bool(value)


def _say(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}
