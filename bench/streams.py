"""Streams of any server that speaks the agent server contract: first event, throughput, idle streams.

    python -m bench.streams --url http://127.0.0.1:8000/deployments/bench --api-key "$(cat .slipway/api-key)"
    python -m bench.streams --url … --api-pid "$(pgrep -of 'slipway api')"      # and the memory of that process

The deployment needs the graph `chunks` of `bench/project` (writes `count` custom chunks). Prints one JSON object per
phase. Loops are bounded in count and time.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

ROUNDS = 40
CHUNKS = 2000
STREAMS = 4
IDLE_STREAMS = 500


def _body(count: int) -> dict[str, Any]:
    return {
        "assistant_id": "chunks",
        "input": {"count": count},
        "stream_mode": ["custom"],
        "if_not_exists": "create",
    }


async def _names(response: httpx.Response) -> AsyncIterator[str]:
    """Names of the events as they arrive."""
    response.raise_for_status()
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            yield line.removeprefix("event: ")


async def first_event(client: httpx.AsyncClient) -> dict[str, float]:
    """POST …/runs/stream of 50 chunks on a warm thread, one client: time to the first event and the first chunk."""
    path = f"/threads/{uuid4()}/runs/stream"
    first: list[float] = []
    chunk: list[float] = []
    events, began_all = 0, time.perf_counter()
    for round_number in range(ROUNDS + 5):
        began, times = time.perf_counter(), []
        async with client.stream("POST", path, json=_body(50)) as response:
            async for name in _names(response):
                times.append((name, time.perf_counter() - began))
        if round_number >= 5:
            first.append(times[0][1])
            chunk.append(next(moment for name, moment in times if name == "custom"))
        events += len(times)
    return {
        **_quantiles("first_event", first),
        **_quantiles("first_chunk", chunk),
        "events_per_second": events / (time.perf_counter() - began_all),
    }


async def throughput(client: httpx.AsyncClient) -> dict[str, float]:
    """4 streams of 2,000 custom chunks at once: events per second, and how many were lost."""

    async def one() -> int:
        count = 0
        async with client.stream("POST", f"/threads/{uuid4()}/runs/stream", json=_body(CHUNKS)) as response:
            async for name in _names(response):
                count += name == "custom"
        return count

    await one()
    rates, lost = [], 0
    for _ in range(3):
        began = time.perf_counter()
        counts = await asyncio.gather(*(one() for _ in range(STREAMS)))
        rates.append(sum(counts) / (time.perf_counter() - began))
        lost += STREAMS * CHUNKS - sum(counts)
    return {"events_per_second": statistics.median(rates), "lost": lost}


async def idle(client: httpx.AsyncClient, pid: int | None) -> dict[str, float]:
    """500 open streams in which nothing happens: how long to open, what they cost, a run beside them."""
    before, cpu_before = _memory_kb(pid), 0.0
    began = time.perf_counter()
    opened = asyncio.Semaphore(50)
    readers = []
    ready = [asyncio.Event() for _ in range(IDLE_STREAMS)]

    async def hold(place: int) -> None:
        async with opened:
            context = client.stream(
                "POST", f"/threads/{uuid4()}/stream", json={"channels": ["values", "lifecycle"]}
            )
            response = await context.__aenter__()
            response.raise_for_status()
            ready[place].set()
        try:
            async for _ in response.aiter_raw():
                continue
        finally:
            await context.__aexit__(None, None, None)

    readers = [asyncio.create_task(hold(place)) for place in range(IDLE_STREAMS)]
    async with asyncio.timeout(60):
        await asyncio.gather(*(event.wait() for event in ready))
    opening = time.perf_counter() - began
    cpu_before = _cpu_seconds(pid)
    await asyncio.sleep(10)
    cpu = _cpu_seconds(pid) - cpu_before
    beside = await first_event(client)
    after = _memory_kb(pid)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    return {
        "streams": IDLE_STREAMS,
        "seconds_to_open_all": opening,
        "kb_per_stream": (after - before) / IDLE_STREAMS if pid else -1,
        "cpu_percent_while_idle": 100 * cpu / 10 if pid else -1,
        "first_event_p50_ms_beside": beside["first_event_p50_ms"],
    }


def _quantiles(name: str, seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        f"{name}_p50_ms": statistics.median(ordered) * 1000,
        f"{name}_p95_ms": ordered[int(len(ordered) * 0.95)] * 1000,
    }


def _memory_kb(pid: int | None) -> int:
    if pid is None:
        return 0
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))


def _cpu_seconds(pid: int | None) -> float:
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="Address of the deployment.")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--api-pid", type=int, help="Process whose memory and CPU are measured.")
    given = parser.parse_args()
    limits = httpx.Limits(max_connections=IDLE_STREAMS + 50, max_keepalive_connections=50)
    headers = {"X-Api-Key": given.api_key}
    async with httpx.AsyncClient(
        base_url=given.url, headers=headers, timeout=60, limits=limits, trust_env=False
    ) as client:
        for name, phase in (
            ("first_event", first_event(client)),
            ("throughput", throughput(client)),
            ("idle", idle(client, given.api_pid)),
        ):
            result = {key: round(value, 2) for key, value in (await phase).items()}
            print(json.dumps({"phase": name, **result}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
