"""Tasks of the protocol from runs: `contextId` is the thread, the id is `<thread>:<run>`."""

from typing import Any

from psycopg.rows import DictRow

_STATES = {
    "pending": "submitted",
    "running": "working",
    "success": "completed",
    "error": "failed",
    "timeout": "failed",
    "interrupted": "canceled",
}
# States that a task list can be narrowed to, as statuses of runs.
RUN_STATUSES = {
    state: [run for run, task in _STATES.items() if task == state] for state in set(_STATES.values())
}


def task_of_run(run: DictRow, history_length: int | None = None) -> dict[str, Any]:
    """A row of `storage.run_results` as `Dialect` reads tasks."""
    messages = [message for message in (_plain(item) for item in _messages(run["values"])) if message]
    state = _state(run)
    task_id = f"{run['thread_id']}:{run['run_id']}"
    return {
        "id": task_id,
        "contextId": str(run["thread_id"]),
        "state": state,
        "timestamp": run["updated_at"].isoformat().replace("+00:00", "Z"),
        "note": _note(run, state),
        "noteId": f"{task_id}:status",
        "answers": [_answer(messages)] if state == "completed" else [],
        "history": messages if history_length is None else messages[len(messages) - history_length :],
        "metadata": {},
    }


def text_of_content(content: Any) -> str:
    """The text of a message's content, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    blocks = (block if isinstance(block, dict) else {"text": str(block)} for block in content)
    return "".join(str(block.get("text", "")) for block in blocks)


def _state(run: DictRow) -> str:
    if run["status"] == "success" and run["next"]:
        return "input-required"
    return _STATES[run["status"]]


def _note(run: DictRow, state: str) -> str | None:
    """What the status says beside the state: a failure's message, or an interrupt's question."""
    if state == "failed":
        error = run["error"] or {}
        return f"{error.get('error', 'Error')}: {error.get('message', '')}"
    if state == "input-required":
        values = [str(interrupt.get("value")) for interrupt in run["interrupts"] or []]
        return "\n".join(values) or "The agent waits for input."
    return None


def _messages(values: Any) -> list[Any]:
    found = values.get("messages") if isinstance(values, dict) else None
    return found if isinstance(found, list) else []


def _plain(message: Any) -> dict[str, Any] | None:
    """Role, text and id of a user's or an agent's message; tools and systems speak to nobody outside."""
    roles = {"human": "user", "ai": "agent"}
    if not isinstance(message, dict) or message.get("type") not in roles:
        return None
    text = text_of_content(message.get("content"))
    return {"role": roles[message["type"]], "text": text, "id": message.get("id") or ""} if text else None


def _answer(messages: list[dict[str, Any]]) -> str:
    return next((message["text"] for message in reversed(messages) if message["role"] == "agent"), "")
