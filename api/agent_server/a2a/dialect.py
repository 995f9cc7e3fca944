"""What 0.3 and 1.0 of the protocol call the same things on the wire."""

from dataclasses import dataclass
from typing import Any

VERSION_HEADER = "A2A-Version"

_METHODS_0_3 = {
    "message/send": "send",
    "message/stream": "stream",
    "tasks/get": "get",
    "tasks/cancel": "cancel",
    "tasks/list": "list",
    "tasks/resubscribe": "resubscribe",
}
_METHODS_1_0 = {
    "SendMessage": "send",
    "SendStreamingMessage": "stream",
    "GetTask": "get",
    "CancelTask": "cancel",
    "ListTasks": "list",
    "SubscribeToTask": "resubscribe",
}
# Which operation a method of either version is.
METHODS = {**_METHODS_0_3, **_METHODS_1_0}


@dataclass(frozen=True)
class Dialect:
    """Writes tasks, messages and events of one version from one form: lower-case states, plain fields."""

    is_1_0: bool

    def task(self, task: dict[str, Any]) -> dict[str, Any]:
        return {
            **self._kind("task"),
            "id": task["id"],
            "contextId": task["contextId"],
            "status": self._status(task),
            "artifacts": [self._artifact(task, text) for text in task["answers"]],
            "history": [self.message(message, task) for message in task["history"]],
            **({"metadata": task["metadata"]} if task["metadata"] else {}),
        }

    def message(self, message: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
        """`message`: role (user or agent), text, id."""
        role = f"ROLE_{message['role'].upper()}" if self.is_1_0 else message["role"]
        return {
            **self._kind("message"),
            "role": role,
            "messageId": message["id"],
            "contextId": task["contextId"],
            "taskId": task["id"],
            "parts": [self._text(message["text"])],
        }

    def task_result(self, task: dict[str, Any]) -> dict[str, Any]:
        """Answer to a message that was sent, and first event of a stream."""
        return {"task": self.task(task)} if self.is_1_0 else self.task(task)

    def status_event(self, task: dict[str, Any], *, final: bool) -> dict[str, Any]:
        event = {
            **self._kind("status-update"),
            "taskId": task["id"],
            "contextId": task["contextId"],
            "status": self._status(task),
            **({} if self.is_1_0 else {"final": final}),
        }
        return {"statusUpdate": event} if self.is_1_0 else event

    def artifact_event(self, task: dict[str, Any], text: str) -> dict[str, Any]:
        event = {
            **self._kind("artifact-update"),
            "taskId": task["id"],
            "contextId": task["contextId"],
            "artifact": self._artifact(task, text),
            "append": False,
            "lastChunk": True,
        }
        return {"artifactUpdate": event} if self.is_1_0 else event

    def _status(self, task: dict[str, Any]) -> dict[str, Any]:
        state = task["state"]
        status = {
            "state": f"TASK_STATE_{state.upper().replace('-', '_')}" if self.is_1_0 else state,
            "timestamp": task["timestamp"],
        }
        if task["note"] is not None:
            note = {"role": "agent", "text": task["note"], "id": task["noteId"]}
            status["message"] = self.message(note, task)
        return status

    def _artifact(self, task: dict[str, Any], text: str) -> dict[str, Any]:
        return {"artifactId": f"{task['id']}:answer", "name": "answer", "parts": [self._text(text)]}

    def _text(self, text: str) -> dict[str, Any]:
        return {"text": text} if self.is_1_0 else {"kind": "text", "text": text}

    def _kind(self, kind: str) -> dict[str, str]:
        return {} if self.is_1_0 else {"kind": kind}


def dialect_of(header: str | None, method: str) -> tuple[Dialect, str | None]:
    """The dialect of a request, and which operation its method is; None for an unknown method.

    The method's name decides; the header decides for names that neither version has.
    """
    if method in _METHODS_1_0:
        return Dialect(True), _METHODS_1_0[method]
    if method in _METHODS_0_3:
        return Dialect(False), _METHODS_0_3[method]
    return Dialect((header or "").startswith("1")), None
