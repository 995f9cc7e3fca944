"""Three runs on one thread, enqueued at once; their messages come out in order of receipt."""

from typing import Any

from langgraph_sdk import get_client

from stack.demo.steps import DemoError, Steps

QUESTIONS = ("first question", "second question", "third question")


async def converse(steps: Steps, deployment_url: str, api_key: str, tenant_id: str) -> None:
    """Enqueue, join, read the state.

    Raises:
        DemoError: a run did not succeed, or messages are missing, doubled or out of order.
    """
    client = get_client(url=deployment_url, api_key=api_key, headers={"X-Tenant-Id": tenant_id})
    with steps.step("enqueue_runs", "Three runs enqueued on one thread"):
        assistants = await client.assistants.search(limit=10)
        if not assistants:
            raise DemoError("The deployment has no assistant.")
        thread_id = (await client.threads.create())["thread_id"]
        runs = [
            await client.runs.create(
                thread_id,
                assistants[0]["graph_id"],
                input=_message(question),
                multitask_strategy="enqueue",
            )
            for question in QUESTIONS
        ]
        steps.keep(thread_id=thread_id, assistant_id=assistants[0]["assistant_id"])
    with steps.step("join_runs", "All runs joined"):
        for run in runs:
            await client.runs.join(thread_id, run["run_id"])
        ended = [await client.runs.get(thread_id, run["run_id"]) for run in runs]
        steps.keep(runs=[{"run_id": run["run_id"], "status": run["status"]} for run in ended])
    with steps.step("read_state", "Messages read from the thread's state"):
        state = await client.threads.get_state(thread_id)
        messages = [_plain(message) for message in state["values"]["messages"]]  # type: ignore[call-overload]
        steps.keep(messages=messages)
        for message in messages:
            steps.say(f"{message['type']:>5}: {message['content']}")
        _verify(steps.results["runs"], messages)
        steps.keep(in_order=True)


def _verify(runs: list[dict[str, str]], messages: list[dict[str, str]]) -> None:
    failed = [run for run in runs if run["status"] != "success"]
    if failed:
        raise DemoError(f"Runs did not succeed: {failed}")
    asked = [message["content"] for message in messages if message["type"] == "human"]
    if asked != list(QUESTIONS):
        raise DemoError(f"Questions are not in order of receipt: {asked}")
    if [message["type"] for message in messages] != ["human", "ai"] * len(QUESTIONS):
        raise DemoError(f"Each question must be followed by one answer: {messages}")


def _message(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def _plain(message: Any) -> dict[str, str]:
    content = message["content"]
    if not isinstance(content, str):
        content = "".join(block.get("text", "") for block in content if isinstance(block, dict))
    return {"type": message["type"], "content": content}
