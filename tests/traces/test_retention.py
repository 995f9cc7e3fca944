"""Retention deletes what has expired, completely, and nothing else."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client

from storage.database import Database
from storage.traces.order import segment_of
from tests.conftest import Workspace
from tests.traces.wire import MULTIPART, json_part, multipart, root_run
from workflows.messages.trace_retention import TRACE_RETENTION_SCHEDULE

Query = Callable[..., Any]
DEADLINE_SECONDS = 180.0


async def ingest(workspace: Workspace, run: dict[str, Any], attachment: bytes | None = None) -> None:
    parts = [json_part(f"post.{run['id']}", run)]
    if attachment is not None:
        parts.append((f"attachment.{run['id']}.file", "text/plain", attachment))
    answer = await workspace.client.post("/runs/multipart", content=multipart(parts), headers=MULTIPART)
    assert answer.status_code == 202, answer.text


def run_of(age: timedelta, project: str) -> dict[str, Any]:
    run = root_run(session_name=project)
    began = datetime.now(UTC) - age
    run["start_time"] = run["end_time"] = began.isoformat()
    run["dotted_order"] = segment_of(run["id"], began)
    return run


async def eventually(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}"
        await asyncio.sleep(0.2)


async def test_expired_runs_and_deleted_projects_go_with_attachments_and_feedback(
    workspace: Workspace, database: Database, temporal_client: Client, query: Query
) -> None:
    await workspace.client.post("/sessions", json={"name": "short", "trace_tier": "shortlived"})
    await workspace.client.post("/sessions", json={"name": "long"})
    expired, kept = run_of(timedelta(days=15), "short"), run_of(timedelta(days=13), "short")
    long_kept, ancient = run_of(timedelta(days=15), "long"), run_of(timedelta(days=401), "long")
    doomed = run_of(timedelta(hours=1), "doomed")
    for run in (kept, long_kept, ancient):
        await ingest(workspace, run)
    async with database.connection() as connection:
        # A row that no key points to must not be selected for ever.
        await connection.execute("DELETE FROM trace_run_keys WHERE id = %s", (ancient["id"],))
    await ingest(workspace, expired, b"expired file")
    await ingest(workspace, doomed, b"doomed file")
    await workspace.client.post("/feedback", json={"run_id": doomed["id"], "key": "k", "score": 1})
    links = [
        (await query(id=[run["id"]]))[0]["s3_urls"]["attachment.file"]["presigned_url"]
        for run in (expired, doomed)
    ]
    project = (await query(id=[doomed["id"]]))[0]["session_id"]
    assert (await workspace.client.delete(f"/sessions/{project}")).status_code == 202
    assert await query(id=[doomed["id"]]) == []
    retention = temporal_client.get_schedule_handle(TRACE_RETENTION_SCHEDULE)
    triggered_at = float("-inf")

    async def all_gone() -> bool:
        # Again and again: a trigger is skipped while retention works off what other tests left.
        nonlocal triggered_at
        if time.monotonic() - triggered_at > 5:
            await retention.trigger()
            triggered_at = time.monotonic()
        async with database.connection() as connection:
            cursor = await connection.execute(
                "SELECT (SELECT count(*) FROM trace_run_keys WHERE tenant_id = %(t)s AND id = ANY(%(gone)s))"
                " + (SELECT count(*) FROM trace_runs WHERE tenant_id = %(t)s AND id = ANY(%(gone)s))"
                " + (SELECT count(*) FROM feedback WHERE tenant_id = %(t)s)"
                " + (SELECT count(*) FROM projects WHERE id = %(project)s) AS n",
                {
                    "t": workspace.tenant_id,
                    "gone": [run["id"] for run in (expired, ancient, doomed)],
                    "project": project,
                },
            )
            row = await cursor.fetchone()
        assert row is not None
        files = [(await workspace.client.get(link)).status_code for link in links]
        return bool(row["n"] == 0 and files == [404, 404])

    await eventually(all_gone, "expired runs, the deleted project and their files to go")
    left = {run["id"] for run in await query(id=[kept["id"], long_kept["id"], expired["id"]])}
    assert left == {kept["id"], long_kept["id"]}


async def test_deleting_runs_takes_their_files_and_feedback(workspace: Workspace, query: Query) -> None:
    run = root_run()
    await ingest(workspace, run, b"file")
    await workspace.client.post("/feedback", json={"run_id": run["id"], "key": "k", "score": 1})
    link = (await query(id=[run["id"]]))[0]["s3_urls"]["attachment.file"]["presigned_url"]
    answer = await workspace.client.post("/runs/delete", json={"trace_ids": [run["id"]]})
    assert answer.json() == {"deleted": 1}
    assert await query(id=[run["id"]]) == []
    assert (await workspace.client.get(link)).status_code == 404
    assert (await workspace.client.get("/feedback", params={"run": run["id"]})).json() == []
