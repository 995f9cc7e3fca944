"""The unmodified stream controller of @langchain/langgraph-sdk, in Node, against /api (streaming contract §2)."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.stacks import Stack

TIMEOUT_SECONDS = 150.0


def _run_controller(web: Path, *arguments: str) -> dict[str, Any]:
    result = subprocess.run(
        ["node", "tests/controller.mjs", *arguments],
        cwd=web,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


@pytest.mark.parametrize("with_key", [False, True], ids=["without a key", "with a key"])
def test_controller_talks_to_the_chat(chat_stack: Stack, web: Path, with_key: bool) -> None:
    seen = _run_controller(web, chat_stack.api_url, *([chat_stack.api_key] if with_key else []))

    bootstrap = seen["bootstrap"]
    assert (bootstrap["before"], bootstrap["begun"], bootstrap["after"]) == (404, 200, 200)

    first, second = seen["turns"]
    assert [message["type"] for message in first["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    assert "714" in first["messages"][-1]["text"] and "Research" in first["messages"][-1]["text"]
    assert first["steps"] > 20, "the answer did not grow token by token"
    agents = {agent["name"]: agent for agent in first["subagents"]}
    assert set(agents) == {"researcher", "math-whiz"}
    assert all(agent["status"] == "complete" for agent in agents.values())
    assert agents["math-whiz"]["taskInput"] == "Compute 42 * 17"
    assert "714" in agents["math-whiz"]["output"]["content"]

    assert len(second["messages"]) == 9 and "25" in second["messages"][-1]["text"]
    for turn in (first, second):
        assert turn["error"] is None
        assert len(turn["created"]) == 1
        assert turn["completed"] == [{"runId": turn["created"][0]["runId"], "reason": "success"}]

    assert seen["reload"]["messages"] == second["messages"]
    assert seen["reload"]["isLoading"] is False and seen["reload"]["completed"] == 0
    live = {(agent["name"], tuple(agent["namespace"])) for agent in second["subagents"]}
    assert {(agent["name"], tuple(agent["namespace"])) for agent in seen["reload"]["subagents"]} == live
