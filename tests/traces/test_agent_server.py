"""A deep agent on our own agent server traces itself into our own trace store."""

from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from rich.console import Console

from stack.demo.deploying import deploy
from stack.demo.steps import Steps
from tests.runtime.harness import eventually
from tests.stacks import Stack

DEEP_AGENT = Path(__file__).parent.parent.parent / "examples" / "deep_agent"
NAME = "traces-deep-agent"
# The scripted model has no price, so the run says whose prices to count with: (input, output) per million tokens.
PRICED = {"metadata": {"ls_model_name": "gpt-4o-mini"}}
MODEL_CALLS = 6


async def test_a_deep_agent_is_one_tree_with_tokens_and_costs(stack: Stack) -> None:
    headers = {"X-Api-Key": stack.api_key}
    async with httpx.AsyncClient(base_url=stack.api_url, headers=headers, timeout=60, trust_env=False) as api:
        await deploy(Steps(Console(quiet=True)), api, NAME, DEEP_AGENT)
        async with get_client(url=f"{stack.api_url}/deployments/{NAME}", api_key=stack.api_key) as agent:
            thread = await agent.threads.create()
            question = "Research LangGraph streaming and compute 42 * 17"
            given: Any = {"messages": [{"type": "human", "content": question}]}
            run = await agent.runs.create(thread["thread_id"], "chat", input=given, config=PRICED)
            await agent.runs.join(thread["thread_id"], run["run_id"])

        async def whole_tree() -> list[dict[str, Any]] | None:
            answer = await api.post("/api/v1/runs/query", json={"trace": run["run_id"]})
            found: list[dict[str, Any]] = answer.json()["runs"]
            models = [one for one in found if one["run_type"] == "llm"]
            ended = found and all(one["end_time"] for one in found)
            return found if ended and len(models) == MODEL_CALLS else None

        tree = await eventually(whole_tree)
        projects = (await api.get("/api/v1/sessions", params={"name": NAME})).json()

    runs = {one["id"]: one for one in tree}
    [root] = [one for one in tree if one["parent_run_id"] is None]
    assert (root["id"], root["status"], root["session_id"]) == (run["run_id"], "success", projects[0]["id"])
    assert root["extra"]["metadata"]["thread_id"] == thread["thread_id"]
    for one in tree:
        if one is not root:
            parent = runs[one["parent_run_id"]]
            assert one["dotted_order"].startswith(parent["dotted_order"] + ".")
        assert {one["session_id"], one["trace_id"]} == {root["session_id"], root["id"]}

    delegated = [one["id"] for one in tree if (one["run_type"], one["name"]) == ("tool", "task")]
    assert len(delegated) == 2
    for tool in ("search_web", "calculator"):
        [used] = [one for one in tree if (one["run_type"], one["name"]) == ("tool", tool)]
        assert len(set(used["parent_run_ids"]) & set(delegated)) == 1

    models = [one for one in tree if one["run_type"] == "llm"]
    assert all(one["total_tokens"] > 0 for one in models)
    assert root["total_tokens"] == sum(one["total_tokens"] for one in models)
    assert all(float(one["total_cost"]) > 0 for one in models)
    assert float(root["total_cost"]) == round(root["completion_tokens"] * 0.60 / 1_000_000, 12)
