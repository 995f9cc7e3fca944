"""Runs per second that are committed through `/runs/multipart`, in the Python SDK's wire format.

    python -m bench.ingest --url http://127.0.0.1:8000 --key slw_… --runs 100000 --watch <api pid> <postgres pid>

Bodies are made before the clock starts; what sends them only writes bytes to sockets. `--watch` adds the CPU seconds
that each process and its children spent, which hold also where other work shares the machine.
"""

import argparse
import http.client
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.parse import urlsplit

from bench.trace_bodies import BOUNDARY, bodies

_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--key", required=True)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--runs-per-body", type=int, default=100)
    parser.add_argument("--runs-per-trace", type=int, default=5)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--project", default="bench")
    parser.add_argument(
        "--days", type=float, default=1.0, help="Time over which the runs' starts are spread."
    )
    parser.add_argument("--ending", type=datetime.fromisoformat, help="Start of the last run; default now.")
    parser.add_argument("--watch", type=int, nargs="*", default=[], metavar="PID")
    options = parser.parse_args()
    spread = timedelta(days=options.days)
    ending = options.ending or datetime.now(UTC)
    made = list(
        bodies(
            options.runs,
            options.runs_per_body,
            options.runs_per_trace,
            options.project,
            ending - spread,
            spread,
        )
    )
    print(
        f"{options.runs} runs in {len(made)} bodies of {sum(map(len, made)) // len(made)} bytes (compressed)"
    )
    before = {pid: cpu_seconds(pid) for pid in options.watch}
    began = time.perf_counter()
    send_all(options.url, options.key, made, options.senders)
    seconds = time.perf_counter() - began
    print(f"{options.runs / seconds:,.0f} runs/s committed over {seconds:.1f} s")
    spent = {pid: cpu_seconds(pid) - before[pid] for pid in options.watch}
    for pid, used in spent.items():
        print(f"  pid {pid}: {used:.1f} CPU s, {used / options.runs * 1e6:.0f} µs per run")
    if spent:
        print(f"  on two cores of their own: {2 * options.runs / sum(spent.values()):,.0f} runs/s at most")


def send_all(url: str, key: str, made: list[bytes], senders: int) -> None:
    """Every body once, from several connections.

    Raises:
        RuntimeError: an answer other than 202.
    """
    queue: SimpleQueue[bytes] = SimpleQueue()
    for body in made:
        queue.put(body)
    failures: list[str] = []
    threads = [threading.Thread(target=_send, args=(url, key, queue, failures)) for _ in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(failures[0])


def _send(url: str, key: str, queue: "SimpleQueue[bytes]", failures: list[str]) -> None:
    headers = {
        "X-Api-Key": key,
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Content-Encoding": "zstd",
    }
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    while not failures:
        try:
            body = queue.get_nowait()
        except Empty:
            return
        connection.request("POST", "/runs/multipart", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 202:
            failures.append(f"{answer.status}: {text[:300]!r}")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its living and waited-for children."""
    total = _own(pid)
    for task in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = task.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            total += sum(int(ticks) for ticks in fields[11:15]) / _TICKS
    return total


def _own(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS


if __name__ == "__main__":
    main()
