"""Latency and throughput of runs on any server that speaks the agent server contract.

    python -m bench.runs --url http://127.0.0.1:8000/deployments/bench --api-key "$(cat .slipway/api-key)"
    python -m bench.runs --url … --peer http://127.0.0.1:2024        # the same against a peer, and the ratios

The deployment needs the graphs of `bench/project`: `echo` (one node, no model) and `sleep` (waits `ms` milliseconds,
then appends its input). Prints one JSON object per phase. Loops are bounded in count and time.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

PHASE_SECONDS = 8.0
# Runs on one thread, before the next one: a conversation's state grows with each turn.
TURNS = 20

Phase = Callable[[httpx.AsyncClient], Awaitable[dict[str, float]]]


async def new_thread(client: httpx.AsyncClient) -> str:
    response = await client.post("/threads", json={})
    response.raise_for_status()
    return str(response.json()["thread_id"])


def body(graph: str, text: str, ms: int = 0) -> dict[str, Any]:
    return {
        "assistant_id": graph,
        "input": {"messages": [{"role": "user", "content": text}], "ms": ms},
        "multitask_strategy": "enqueue",
    }


def contents(values: dict[str, Any]) -> list[str]:
    return [message["content"] for message in values["messages"] if message["type"] == "human"]


def wait_latency(clients: int) -> Phase:
    """POST /threads/{id}/runs/wait, 20 turns to a thread, for 8 s."""

    async def phase(client: httpx.AsyncClient) -> dict[str, float]:
        times: list[float] = []

        async def worker() -> None:
            thread, turns = await new_thread(client), 0
            deadline = time.perf_counter() + PHASE_SECONDS
            while time.perf_counter() < deadline:
                if turns == TURNS:
                    thread, turns = await new_thread(client), 0
                turns += 1
                began = time.perf_counter()
                response = await client.post(f"/threads/{thread}/runs/wait", json=body("echo", "hello"))
                response.raise_for_status()
                times.append(time.perf_counter() - began)

        await asyncio.gather(*(worker() for _ in range(clients)))
        return {**_latencies(times), "per_second": len(times) / PHASE_SECONDS}

    return phase


def stateless_latency(clients: int) -> Phase:
    """POST /runs/wait for 8 s."""

    async def phase(client: httpx.AsyncClient) -> dict[str, float]:
        times: list[float] = []

        async def worker() -> None:
            deadline = time.perf_counter() + PHASE_SECONDS
            while time.perf_counter() < deadline:
                began = time.perf_counter()
                response = await client.post("/runs/wait", json=body("echo", "hello"))
                response.raise_for_status()
                times.append(time.perf_counter() - began)

        await asyncio.gather(*(worker() for _ in range(clients)))
        return {**_latencies(times), "per_second": len(times) / PHASE_SECONDS}

    return phase


def queued_on_one_thread(count: int, ms: int) -> Phase:
    """`count` runs of `ms` milliseconds created in a row on one thread; seconds until the last one has ended."""

    async def phase(client: httpx.AsyncClient) -> dict[str, float]:
        thread = await new_thread(client)
        began = time.perf_counter()
        last = ""
        for number in range(count):
            response = await client.post(f"/threads/{thread}/runs", json=body("sleep", str(number), ms))
            response.raise_for_status()
            last = response.json()["run_id"]
        created = time.perf_counter() - began
        (await client.get(f"/threads/{thread}/runs/{last}/join")).raise_for_status()
        seconds = time.perf_counter() - began
        state = (await client.get(f"/threads/{thread}/state")).json()
        in_order = contents(state["values"]) == [str(number) for number in range(count)]
        return {"seconds": seconds, "created_seconds": created, "in_order": float(in_order)}

    return phase


def burst(threads: int, runs: int, ms: int) -> Phase:
    """`runs` runs on each of `threads` threads; seconds until all have ended, and whether each thread kept order."""

    async def phase(client: httpx.AsyncClient) -> dict[str, float]:
        ids = [await new_thread(client) for _ in range(threads)]
        began = time.perf_counter()
        limit = asyncio.Semaphore(16)

        async def fill(thread: str) -> str:
            last = ""
            for number in range(runs):
                async with limit:
                    response = await client.post(
                        f"/threads/{thread}/runs", json=body("sleep", str(number), ms)
                    )
                response.raise_for_status()
                last = response.json()["run_id"]
            return last

        last_runs = await asyncio.gather(*(fill(thread) for thread in ids))
        created = time.perf_counter() - began

        async def drained(thread: str, run: str) -> bool:
            async with limit:
                (await client.get(f"/threads/{thread}/runs/{run}/join")).raise_for_status()
                state = (await client.get(f"/threads/{thread}/state")).json()
            return contents(state["values"]) == [str(number) for number in range(runs)]

        kept = await asyncio.gather(
            *(drained(thread, run) for thread, run in zip(ids, last_runs, strict=True))
        )
        seconds = time.perf_counter() - began
        return {
            "created_seconds": created,
            "seconds": seconds,
            "per_second": threads * runs / seconds,
            "in_order": sum(kept) / threads,
        }

    return phase


PHASES: dict[str, Phase] = {
    "wait, 1 client": wait_latency(1),
    "wait, 8 clients": wait_latency(8),
    "wait, 32 clients": wait_latency(32),
    "stateless wait, 1 client": stateless_latency(1),
    "stateless wait, 32 clients": stateless_latency(32),
    "20 instant runs queued on one thread": queued_on_one_thread(20, 0),
    "10 runs of 100 ms queued on one thread": queued_on_one_thread(10, 100),
    "200 threads x 10 runs of 5 ms": burst(200, 10, 5),
}


def _latencies(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50_ms": 1000 * statistics.median(ordered),
        "p95_ms": 1000 * ordered[int(len(ordered) * 0.95)],
        "p99_ms": 1000 * ordered[int(len(ordered) * 0.99)],
    }


async def measure(url: str, key: str | None, only: str | None) -> dict[str, dict[str, float]]:
    headers = {"X-Api-Key": key} if key else {}
    results: dict[str, dict[str, float]] = {}
    limits = httpx.Limits(max_connections=128)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=180.0, limits=limits, trust_env=False
    ) as client:
        await client.post(f"/threads/{await new_thread(client)}/runs/wait", json=body("echo", "warm up"))
        for name, phase in PHASES.items():
            if only and only not in name:
                continue
            results[name] = await phase(client)
            print(json.dumps({"url": url, "phase": name, **_rounded(results[name])}), flush=True)
    return results


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(figure, 2) for name, figure in figures.items()}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--api-key")
    parser.add_argument("--peer", help="address of another server, measured in the same run")
    parser.add_argument("--only", help="phases whose name contains this")
    options = parser.parse_args()
    ours = await measure(options.url, options.api_key, options.only)
    if options.peer:
        peers = await measure(options.peer, None, options.only)
        for name, figures in ours.items():
            ratios = {
                figure: value / peers[name][figure]
                for figure, value in figures.items()
                if peers[name][figure]
            }
            print(json.dumps({"ratio": name, **_rounded(ratios)}))


if __name__ == "__main__":
    asyncio.run(main())
