"""The main job end to end, as a new user would try it."""

import json
from typing import Any

import pyarrow.parquet as pq
import pytest
import s3fs

from stack.demo.conversing import QUESTIONS
from stack.demo.deploying import pack
from stack.demo.steps import DemoError
from tests.stacks import REPOSITORY, Stack

STEPS = [
    *("create_deployment", "upload", "deploy", "enqueue_runs", "join_runs", "read_state", "wait_for_traces"),
    *("create_destination", "export", "read_parquet"),
]


def _demo(stack: Stack) -> dict[str, Any]:
    result = stack.slipway("demo", "--json", timeout_seconds=280)
    report: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == 0, report["error"]
    return report


@pytest.mark.timeout(600)
def test_the_demo_holds_and_can_be_run_again(stack: Stack) -> None:
    first, second = _demo(stack), _demo(stack)
    for report in (first, second):
        assert report["ok"] is True
        assert report["revision_states"][-1] == "DEPLOYED"
        asked = [message["content"] for message in report["messages"] if message["type"] == "human"]
        assert asked == list(QUESTIONS)
        assert [message["type"] for message in report["messages"]] == ["human", "ai"] * 3
        assert [run["status"] for run in report["runs"]] == ["success"] * 3
        assert report["export_states"][-1] == "COMPLETED"
        assert list(report["seconds"]) == STEPS
        assert _rows(stack, report["files"]) == report["rows"] > 0
        for file in report["files"]:
            assert file.startswith(
                f"{stack.demo_bucket}/exports/export_id={report['export_id']}/tenant_id={stack.tenant_id}"
                f"/session_id={report['session_id']}/runs/year="
            )
    for kept in ("deployment_id", "destination_id", "session_id"):
        assert first[kept] == second[kept], kept
    for new in ("revision_id", "thread_id", "export_id"):
        assert first[new] != second[new], new


def test_the_demo_says_what_failed_and_exits_1(stack: Stack) -> None:
    result = stack.slipway("demo", "--json", "--agent", str(REPOSITORY / "docs"), "--name", "no-agent")
    report = json.loads(result.stdout)
    assert (result.returncode, report["ok"]) == (1, False)
    assert "langgraph.json" in report["error"]


def test_the_same_folder_packs_to_the_same_bytes() -> None:
    folder = REPOSITORY / "examples" / "chat_agent"
    assert pack(folder) == pack(folder)
    with pytest.raises(DemoError):
        pack(REPOSITORY / "docs")


def _rows(stack: Stack, files: list[str]) -> int:
    bucket = s3fs.S3FileSystem(
        key=stack.s3_access_key_id,
        secret=stack.s3_secret_access_key,
        client_kwargs={"endpoint_url": stack.s3_endpoint_url},
        skip_instance_cache=True,
    )
    total = 0
    for path in files:
        with bucket.open(path) as file:
            total += pq.read_metadata(file).num_rows
    return total
