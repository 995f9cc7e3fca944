"""Many threads with queues, and a worker that dies on the way: nothing lost, twice, or out of order."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.served import Served
from tests.stacks import Stack

THREADS, RUNS = 200, 10


@pytest.mark.timeout(280)
async def test_two_thousand_queued_runs_survive_the_death_of_a_worker(stack: Stack, served: Served) -> None:
    second = served.start_worker()
    limit = asyncio.Semaphore(16)
    async with httpx.AsyncClient(
        base_url=served.url(stack.api_url),
        headers={"X-Api-Key": served.api_key},
        timeout=120,
        trust_env=False,
    ) as client:

        async def call(method: str, path: str, body: Any = None) -> Any:
            async with limit:
                response = await client.request(method, path, json=body)
            assert response.status_code == 200, response.text
            return response.json()

        async def fill(thread: str) -> str:
            last = ""
            for number in range(RUNS):
                given = {"name": str(number), "ms": 5, "fails": False}
                body = {"assistant_id": "ledger", "input": given}
                last = (await call("POST", f"/threads/{thread}/runs", body))["run_id"]
            return last

        threads = [(await call("POST", "/threads", {}))["thread_id"] for _ in range(THREADS)]
        filling = [asyncio.create_task(fill(thread)) for thread in threads]
        await asyncio.wait(filling, return_when=asyncio.FIRST_COMPLETED)
        second.kill()
        last_runs = await asyncio.gather(*filling)

        async def entries(thread: str, run: str) -> list[str]:
            await call("GET", f"/threads/{thread}/runs/{run}/join")
            state = await call("GET", f"/threads/{thread}/state")
            return list(state["values"]["entries"])

        found = await asyncio.gather(
            *(entries(thread, run) for thread, run in zip(threads, last_runs, strict=True))
        )
    expected = [f"{number}:{part}" for number in range(RUNS) for part in ("a", "b")]
    assert [thread for thread, log in zip(threads, found, strict=True) if log != expected] == []
    statuses = await served.rows(
        "SELECT status, count(*) FROM runs WHERE deployment_id = %s GROUP BY status", served.deployment_id
    )
    assert statuses == [{"status": "success", "count": THREADS * RUNS}]
