"""Latency of the newest 100 root runs of one project with a metadata filter, through `/runs/query`.

    python -m bench.trace_query --url http://127.0.0.1:8000 --key slw_… --project bench

Fill the project first with `python -m bench.ingest --runs 1000000`. Each filter names a customer, an environment or a
thread: one run in a thousand, one in two, and one at all.
"""

import argparse
import json
import statistics
import time
from typing import Any

import httpx

from bench.trace_bodies import CUSTOMERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--key", required=True)
    parser.add_argument("--project", default="bench")
    parser.add_argument("--times", type=int, default=60)
    options = parser.parse_args()
    with httpx.Client(
        base_url=options.url, headers={"X-Api-Key": options.key}, timeout=120, trust_env=False
    ) as client:
        project = client.get("/sessions", params={"name": options.project}).json()[0]["id"]
        newest = client.post("/runs/query", json={"session": [project], "is_root": True, "limit": 1}).json()[
            "runs"
        ][0]
        thread = newest["extra"]["metadata"]["thread_id"]
        rare = [_pair("customer", f"customer-{n % CUSTOMERS}") for n in range(options.times)]
        for name, filters in (
            ("no filter", [None] * options.times),
            ("one in two (environment)", [_pair("environment", "production")] * options.times),
            ("one in a thousand (customer)", rare),
            ("one (thread)", [_pair("thread_id", thread)] * options.times),
            ("none", [_pair("customer", "nobody")] * options.times),
        ):
            print(f"{name}: {_measure(client, project, filters)}")


def _pair(key: str, value: str) -> str:
    return f"and(eq(metadata_key, {json.dumps(key)}), eq(metadata_value, {json.dumps(value)}))"


def _measure(client: httpx.Client, project: str, filters: list[str | None]) -> str:
    times, counts = [], set()
    for text in filters:
        body: dict[str, Any] = {"session": [project], "is_root": True, "limit": 100, "filter": text}
        began = time.perf_counter()
        answer = client.post("/runs/query", json=body)
        times.append((time.perf_counter() - began) * 1000)
        answer.raise_for_status()
        counts.add(len(answer.json()["runs"]))
    times.sort()
    return f"p50 {statistics.median(times):.1f} ms, p95 {times[int(len(times) * 0.95)]:.1f} ms, rows {sorted(counts)}"


if __name__ == "__main__":
    main()
