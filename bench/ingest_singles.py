"""Runs per second through `POST /runs` and `PATCH /runs/{id}`, one request each, as clients without batching send them.

    python -m bench.ingest_singles --url http://127.0.0.1:8000 --key slw_… --runs 2000 --senders 8 \\
        --watch <api pid> <postgres pid>
"""

import argparse
import http.client
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from bench.ingest import cpu_seconds

Request = tuple[str, str, bytes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--key", required=True)
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--senders", type=int, default=8)
    parser.add_argument("--watch", type=int, nargs="*", default=[], metavar="PID")
    options = parser.parse_args()
    creates, patches = zip(*(_requests() for _ in range(options.runs)), strict=True)
    for name, requests in (("POST /runs", creates), ("PATCH /runs/{id}", patches)):
        before = {pid: cpu_seconds(pid) for pid in options.watch}
        began = time.perf_counter()
        seconds = sorted(_send_all(options.url, options.key, list(requests), options.senders))
        rate = len(seconds) / (time.perf_counter() - began)
        middle, late = seconds[len(seconds) // 2], seconds[len(seconds) * 95 // 100]
        print(f"{name}: {rate:,.0f} requests/s, p50 {middle * 1e3:.1f} ms, p95 {late * 1e3:.1f} ms")
        for pid in options.watch:
            print(
                f"  pid {pid}: {(cpu_seconds(pid) - before[pid]) / len(seconds) * 1e6:.0f} µs CPU per request"
            )


def _requests() -> tuple[Request, Request]:
    """The create and the patch of a root run of 2 KB."""
    run_id, began = str(uuid4()), datetime.now(UTC)
    identity: dict[str, Any] = {
        "id": run_id,
        "trace_id": run_id,
        "dotted_order": f"{began:%Y%m%dT%H%M%S%f}Z{run_id}",
        "session_name": "bench-singles",
    }
    create = {
        **identity,
        "name": "agent",
        "run_type": "chain",
        "start_time": began.isoformat(),
        "inputs": {"question": "why " * 150},
        "extra": {"metadata": {"customer": "acme"}},
    }
    patch = {
        **identity,
        "end_time": (began + timedelta(seconds=1)).isoformat(),
        "outputs": {"answer": "because " * 100, "usage_metadata": {"input_tokens": 12, "output_tokens": 4}},
    }
    return (
        ("POST", "/runs", json.dumps(create).encode()),
        ("PATCH", f"/runs/{run_id}", json.dumps(patch).encode()),
    )


def _send_all(url: str, key: str, requests: list[Request], senders: int) -> list[float]:
    """Seconds of each request.

    Raises:
        RuntimeError: an answer other than 202.
    """
    queue: SimpleQueue[Request] = SimpleQueue()
    for request in requests:
        queue.put(request)
    seconds: list[float] = []
    failures: list[str] = []

    def send() -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        headers = {"X-Api-Key": key, "Content-Type": "application/json"}
        while not failures:
            try:
                method, path, body = queue.get_nowait()
            except Empty:
                return
            began = time.perf_counter()
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            seconds.append(time.perf_counter() - began)
            if answer.status != 202:
                failures.append(f"{answer.status}: {text[:300]!r}")

    threads = [threading.Thread(target=send) for _ in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(failures[0])
    return seconds


if __name__ == "__main__":
    main()
