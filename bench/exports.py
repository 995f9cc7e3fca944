"""Rows per second of bulk exports: against the bare limit of this machine, and against a loop over pages.

    SLIPWAY_HOME=.slipway python -m bench.exports --rows 1000000

Uses the running stack of SLIPWAY_HOME. In one run, on rows of the same size (about 2 KB each):

- `bare`: one process reads Arrow batches by ADBC, writes zstd Parquet and uploads it in parts; the three overlap.
- `one day`: an export of all rows on one UTC day, from POST to COMPLETED.
- `side by side`: an export of as many rows over several days.
- `page loop`: `langsmith` pages of 100 into Parquet, as scripts do today, on the first rows of the day.

The three take turns, after a first small export that loads what a worker loads once. Each round gives a ratio; its
median is what counts, because neighbours of a shared machine come and go. CPU seconds are those of all processes of
the stack and of this one, and say more than wall time where others work too. Peak memory is that of the platform
worker's process.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import httpx
import psycopg
from temporalio.client import Client

from bench.export_limit import bare_limit
from bench.export_pages import page_loop
from bench.ingest import cpu_seconds
from settings import Settings, load_settings
from storage.database import Database
from storage.projects import ensure_project
from storage.tenancy import create_key, create_tenant
from workflows.messages import names

DAY = datetime(2025, 6, 2, tzinfo=UTC)
_BASE = "/api/v1/bulk-exports"

_INSERT = """
INSERT INTO trace_runs (tenant_id, session_id, id, trace_id, start_time, end_time, is_root, name, run_type, status,
    trace_tier, dotted_order, tags, inputs, outputs, extra, events, total_tokens, prompt_tokens, completion_tokens,
    total_cost, prompt_cost, completion_cost)
SELECT %(tenant)s, %(project)s, id, id, started, started + interval '2 seconds', true, 'chain', 'chain', 'success',
    'kept', to_char(started AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISSUS"Z"') || id::text, ARRAY['bench'],
    '{"messages": [{"role": "user", "content": "' || filling || '"}]}',
    '{"messages": [{"role": "assistant", "content": "' || filling || '"}]}',
    '{"metadata": {"revision": "' || id || '"}, "runtime": {"sdk": "langsmith-py", "platform": "Linux"}}', '[]',
    n, n / 2, n - n / 2, n * 0.001, n * 0.0004, n * 0.0006
FROM (SELECT n, md5(%(salt)s || n)::uuid AS id, %(start)s::timestamptz + n * %(step)s::interval AS started,
             (SELECT string_agg(md5(%(salt)s || n || ' ' || i) || ' the quick brown fox ', '')
              FROM generate_series(1, 14) i) AS filling
      FROM generate_series(%(first)s::bigint, %(last)s::bigint - 1) n) given
"""


@dataclass(frozen=True)
class Bench:
    """What is measured: one project with all rows on one day, one with as many over several days."""

    settings: Settings
    tenant_id: UUID
    api_key: str
    one_day: UUID
    several_days: UUID
    rows: int
    days: int


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--page-rows", type=int, default=3_000)
    parser.add_argument("--reuse", help="File of an earlier seeding; made if it is missing.", type=Path)
    options = parser.parse_args()
    bench = await _bench(load_settings(), options)
    worker = _worker_pid(bench.settings)
    destination = await _destination(bench)
    measured = {name: Measured() for name in ("bare", "one day", "side by side")}
    await _export(bench, destination, bench.several_days, bench.days, part=timedelta(minutes=1))
    _forget_peak(worker)
    for _ in range(options.repeat):
        for name, measure in measured.items():
            before = _cpu_seconds(bench.settings)
            if name == "bare":
                seconds, measure.bytes = await asyncio.to_thread(_bare, bench)
            elif name == "one day":
                seconds = await _export(bench, destination, bench.one_day, 1)
            else:
                seconds = await _export(bench, destination, bench.several_days, bench.days)
            measure.seconds.append(seconds)
            measure.cpu_seconds.append(_cpu_seconds(bench.settings) - before)
            peak = _peak_megabytes(worker)
            print(
                f"{name}: {seconds:.1f} s, {measure.cpu_seconds[-1]:.1f} CPU s, peak {peak:.0f} MB",
                flush=True,
            )
    pages = await asyncio.to_thread(
        page_loop, bench.settings.api_url, bench.api_key, str(bench.one_day), DAY, options.page_rows
    )
    _report(bench.rows, measured, pages, _peak_megabytes(worker))


def _report(rows: int, measured: "dict[str, Measured]", pages: float, peak_megabytes: float) -> None:
    """The rows of the table in docs/performance/exports.md."""
    bare = measured["bare"]
    size = bare.bytes / 1e6
    print(f"\n{rows:,} rows, {size:,.0f} MB of Parquet, load average {os.getloadavg()[1]:.1f}\n")
    print("| | rows/s | MB/s | of bare, by time | of bare, by CPU seconds |")
    print("| --- | --- | --- | --- | --- |")
    for name, measure in measured.items():
        seconds = statistics.median(measure.seconds)
        by_time = _ratios(bare.seconds, measure.seconds)
        by_cpu = _ratios(bare.cpu_seconds, measure.cpu_seconds)
        print(f"| {name} | {rows / seconds:,.0f} | {size / seconds:.1f} | {by_time} | {by_cpu} |")
    print(f"| page loop of the SDK | {pages:,.0f} | | | |")
    faster = rows / statistics.median(measured["one day"].seconds) / pages
    print(f"\nThe export of one day is {faster:,.0f} times faster than the page loop.")
    print(f"Peak memory of the platform worker: {peak_megabytes:.0f} MB.")


def _ratios(bare: list[float], ours: list[float]) -> str:
    """Median over the rounds, and the rounds' least and most."""
    ratios = [limit / seconds for limit, seconds in zip(bare, ours, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


@dataclass
class Measured:
    """Repetitions of one way to write all rows."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    bytes: int = 0


async def _bench(settings: Settings, options: argparse.Namespace) -> Bench:
    if options.reuse and options.reuse.exists():
        kept = json.loads(options.reuse.read_text())
        ids = {name: UUID(kept[name]) for name in ("tenant_id", "one_day", "several_days")}
        return Bench(settings, api_key=kept["api_key"], rows=kept["rows"], days=kept["days"], **ids)
    async with Database(settings.require_database_url(), 2) as database, database.transaction() as connection:
        tenant = await create_tenant(connection, "bench of exports")
        key = await create_key(connection, tenant.tenant_id, "bench")
        one = await ensure_project(connection, tenant.tenant_id, "one day")
        several = await ensure_project(connection, tenant.tenant_id, "several days")
    bench = Bench(settings, tenant.tenant_id, key, one, several, options.rows, options.days)
    await asyncio.to_thread(_seed, bench, one, 1)
    await asyncio.to_thread(_seed, bench, several, options.days)
    if options.reuse:
        kept = {"tenant_id": str(tenant.tenant_id), "api_key": key, "rows": bench.rows, "days": bench.days}
        options.reuse.write_text(json.dumps({**kept, "one_day": str(one), "several_days": str(several)}))
    return bench


def _seed(bench: Bench, project: UUID, days: int) -> None:
    began = time.perf_counter()
    step = timedelta(days=days) / (bench.rows + 1)
    with psycopg.connect(bench.settings.require_database_url(), autocommit=True) as connection:
        connection.execute("SELECT slipway_ensure_trace_partition(%s)", (DAY,))
        for first in range(0, bench.rows, 50_000):
            connection.execute(
                _INSERT,
                {
                    "tenant": bench.tenant_id,
                    "project": project,
                    "salt": str(project),
                    "start": DAY,
                    "step": step,
                    "first": first,
                    "last": min(first + 50_000, bench.rows),
                },
            )
        connection.execute("VACUUM ANALYZE trace_runs")
    print(f"{bench.rows:,} rows over {days} day(s) made in {time.perf_counter() - began:.0f} s")


def _bare(bench: Bench) -> tuple[float, int]:
    return bare_limit(bench.settings, bench.tenant_id, bench.one_day, DAY, DAY + timedelta(days=1))


async def _destination(bench: Bench) -> str:
    settings = bench.settings
    assert settings.s3_secret_access_key is not None
    async with _client(bench) as client:
        answer = await client.post(
            f"{_BASE}/destinations",
            json={
                "display_name": "bench",
                "config": {
                    "bucket_name": settings.demo_bucket,
                    "prefix": "bench",
                    "endpoint_url": settings.s3_endpoint,
                    "region": settings.s3_region,
                },
                "credentials": {
                    "access_key_id": settings.s3_access_key_id,
                    "secret_access_key": settings.s3_secret_access_key.get_secret_value(),
                },
            },
        )
        answer.raise_for_status()
        return str(answer.json()["id"])


async def _export(
    bench: Bench, destination: str, project: UUID, days: int, *, part: timedelta | None = None
) -> float:
    """Seconds from the request to COMPLETED; with `part` only the first rows are exported."""
    temporal = await Client.connect(bench.settings.temporal_target)
    async with _client(bench) as client:
        began = time.perf_counter()
        answer = await client.post(
            _BASE,
            json={
                "bulk_export_destination_id": destination,
                "session_id": str(project),
                "start_time": DAY.isoformat(),
                "end_time": (DAY + (part or timedelta(days=days))).isoformat(),
                "format_version": "v2_beta",
            },
        )
        answer.raise_for_status()
        # Asking the API again and again would take CPU from what is measured.
        await temporal.get_workflow_handle(names.export_workflow_id(answer.json()["id"])).result()
        export = (await client.get(f"{_BASE}/{answer.json()['id']}")).json()
        seconds = time.perf_counter() - began
    assert export["status"] == "COMPLETED", export
    assert part or export["progress"]["rows_written"] == bench.rows, export["progress"]
    return seconds


def _client(bench: Bench) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=bench.settings.api_url, headers={"X-Api-Key": bench.api_key}, timeout=60, trust_env=False
    )


def _worker_pid(settings: Settings) -> int:
    state = json.loads((settings.home / "state.json").read_text())
    return next(int(process["pid"]) for process in state["processes"] if process["name"] == "worker-platform")


def _cpu_seconds(settings: Settings) -> float:
    """Of every process of the stack, their children, and this process."""
    state = json.loads((settings.home / "state.json").read_text())
    return sum(cpu_seconds(process["pid"]) for process in state["processes"]) + time.process_time()


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peak_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    asyncio.run(main())
