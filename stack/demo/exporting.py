"""Exporting the deployment's traces to Parquet and reading them back."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pyarrow.parquet as pq
import s3fs
from rich.table import Table

from stack.buckets import BucketAccess
from stack.demo.conversing import QUESTIONS
from stack.demo.http import json_of
from stack.demo.steps import DemoError, Steps

_DESTINATION = "demo bucket"
_PREFIX = "exports"
_TRACES_SECONDS = 60.0
_EXPORT_SECONDS = 300.0
_POLL_SECONDS = 0.25
_UNSUCCESSFUL = {"FAILED", "CANCELLED", "TIMEDOUT"}
_COLUMNS = ("name", "run_type", "status", "start_time", "total_tokens")


async def export(
    steps: Steps,
    api: httpx.AsyncClient,
    deployment: dict[str, Any],
    bucket: str,
    access: BucketAccess,
    since: datetime,
) -> None:
    """Destination, one-time export of the deployment's project from `since` on, and the files' rows.

    Raises:
        DemoError: a call was refused, the export did not complete, or its files hold other rows than expected.
    """
    project_id = await _project(api, deployment)
    steps.keep(session_id=project_id)
    with steps.step("wait_for_traces", "Traces of the runs arrived"):
        await _until_traced(api, project_id, since)
    with steps.step("create_destination", f"Export destination on the bucket {bucket}"):
        destination_id = await _destination(api, bucket, access)
        steps.keep(destination_id=destination_id)
    with steps.step("export", "One-time export"):
        export_id = await _export(steps, api, destination_id, project_id, since)
    with steps.step("read_parquet", "Parquet read back"):
        files, rows = await asyncio.to_thread(_read, bucket, export_id, access)
        steps.keep(files=files, rows=len(rows), row_sample=[_row(row) for row in rows[:20]])
        roots = sum(1 for row in rows if row["is_root"])
        if roots != len(QUESTIONS):
            raise DemoError(f"{len(QUESTIONS)} traces were expected in the files, found {roots}.")
    for file in files:
        steps.say(file)
    steps.show(_table(rows))


async def _project(api: httpx.AsyncClient, deployment: dict[str, Any]) -> str:
    if deployment.get("tracer_session_id"):
        return str(deployment["tracer_session_id"])
    found = await json_of(api.get("/api/v1/sessions", params={"name": deployment["name"]}))
    if not found:
        raise DemoError(f"There is no tracing project {deployment['name']}.")
    return str(found[0]["id"])


async def _until_traced(api: httpx.AsyncClient, project_id: str, since: datetime) -> None:
    """Tracing clients send in the background: wait for the end of every root run."""
    body = {"session": [project_id], "is_root": True, "start_time": since.isoformat(), "limit": 100}

    async def arrived() -> bool:
        answer = await json_of(api.post("/api/v1/runs/query", json=body))
        return sum(1 for run in answer["runs"] if run.get("end_time")) >= len(QUESTIONS)

    await _until(arrived, _TRACES_SECONDS, f"the traces of {len(QUESTIONS)} runs")


async def _destination(api: httpx.AsyncClient, bucket: str, access: BucketAccess) -> str:
    """The demo's destination: an earlier one that points to the same place, else a new one."""
    path = "/api/v1/bulk-exports/destinations"
    config = {
        "bucket_name": bucket,
        "prefix": _PREFIX,
        "region": access.region,
        "endpoint_url": access.endpoint_url,
    }
    for known in await json_of(api.get(path)):
        if known["display_name"] == _DESTINATION and config.items() <= known["config"].items():
            return str(known["id"])
    credentials = {"access_key_id": access.access_key_id, "secret_access_key": access.secret_access_key}
    body = {
        "destination_type": "s3",
        "display_name": _DESTINATION,
        "config": config,
        "credentials": credentials,
    }
    return str((await json_of(api.post(path, json=body)))["id"])


async def _export(
    steps: Steps, api: httpx.AsyncClient, destination_id: str, project_id: str, since: datetime
) -> str:
    created = await json_of(
        api.post(
            "/api/v1/bulk-exports",
            json={
                "bulk_export_destination_id": destination_id,
                "session_id": project_id,
                "start_time": since.isoformat(),
                "end_time": (datetime.now(UTC) + timedelta(seconds=1)).isoformat(),
                "format_version": "v2_beta",
            },
        )
    )
    export_id = str(created["id"])
    states: list[str] = []
    steps.keep(export_id=export_id, export_states=states)

    async def completed() -> bool:
        status = str((await json_of(api.get(f"/api/v1/bulk-exports/{export_id}")))["status"]).upper()
        if not states or states[-1] != status:
            states.append(status)
            steps.say(f"export {export_id}: {status}")
        if status in _UNSUCCESSFUL:
            raise DemoError(f"Export {export_id} ended {status}.")
        return status == "COMPLETED"

    await _until(completed, _EXPORT_SECONDS, f"export {export_id} to complete")
    return export_id


def _read(bucket: str, export_id: str, access: BucketAccess) -> tuple[list[str], list[dict[str, Any]]]:
    """Paths and rows of the export's files."""
    files = s3fs.S3FileSystem(
        key=access.access_key_id,
        secret=access.secret_access_key,
        client_kwargs={"endpoint_url": access.endpoint_url, "region_name": access.region},
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    paths = sorted(files.glob(f"{bucket}/{_PREFIX}/export_id={export_id}/**/*.parquet"))
    rows: list[dict[str, Any]] = []
    for path in paths:
        with files.open(path) as file:
            rows += pq.read_table(file, partitioning=None).to_pylist()
    return paths, sorted(rows, key=lambda row: str(row["dotted_order"]))


async def _until(condition: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            raise DemoError(f"Waited {seconds:g} s in vain for {what}.")
        await asyncio.sleep(_POLL_SECONDS)


def _row(row: dict[str, Any]) -> dict[str, str]:
    return {name: str(row.get(name)) for name in ("id", *_COLUMNS)}


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(*_COLUMNS)
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in _COLUMNS))
    return table


def _cell(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)
