"""What the scripted model says: a pure function of the conversation so far."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

_EXPRESSION = re.compile(
    r"[-(]*\d[\d\s.+\-*/%^()\u00d7\u00f7\u22c5\u2212]*\d\)*|\b(?:sqrt|log|sin|cos|tan)\([^()]{1,80}\)"
)
_OPERATOR = re.compile(r"[+*/%^()\u00d7\u00f7\u22c5\u2212]|(?<=\d)\s*-")
_LOOK_UP = re.compile(
    r"\b(?:research|search|look(?:ing)? up|find out|what is|what are|who is|tell me about)\b\s*(.*)",
    re.I | re.S,
)
_COUNT = re.compile(r"\bcount to (\d{1,4})\b", re.I)
_PUBLISH = re.compile(r"\bpublish\b\s*:?\s*(.*)", re.I | re.S)
_FAIL = re.compile(r"\bfail on purpose\b", re.I)

GREETING = (
    "I answer from a script, so that this page works without a model provider's key.\n\n"
    "Try one of these:\n\n"
    "- **Research LangGraph streaming and compute 42 * 17**: both sub-agents at once\n"
    "- **Count to 200**: a long answer, to stop or to reload the page in the middle\n"
    "- **Publish: our release notes**: asks for your approval first\n"
    "- **Fail on purpose**: shows how an error looks\n"
)


class ScriptedFailureError(RuntimeError):
    """The user asked for an error."""


@dataclass(frozen=True)
class Reply:
    """One message of the model, before it is cut into tokens."""

    reasoning: str = ""
    text: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)


def reply_to(role: str, messages: Sequence[AnyMessage]) -> Reply:
    """The next message of `role`.

    Raises:
        ScriptedFailureError: the user's message says "fail on purpose".
    """
    question, results = _latest_turn(messages)
    if role == "researcher":
        return _research(question, results)
    if role == "math-whiz":
        return _calculate(question, results)
    return _answer(question, results) if results else _delegate(question)


def _latest_turn(messages: Sequence[AnyMessage]) -> tuple[str, list[ToolMessage]]:
    """The newest question, and what tools have answered since."""
    start = max((i for i, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    question = str(messages[start].text) if start >= 0 else ""
    return question, [message for message in messages[start + 1 :] if isinstance(message, ToolMessage)]


def _delegate(question: str) -> Reply:
    if _FAIL.search(question):
        raise ScriptedFailureError("The scripted model failed, as it was asked to.")
    if count := _COUNT.search(question):
        return Reply("A long answer: I go one number at a time.", _numbers(int(count[1])))
    if note := _PUBLISH.search(question):
        text = note[1].strip() or "An empty note."
        call = _call("publish_note", {"title": text.splitlines()[0][:60], "text": text})
        return Reply("Publishing needs a person's approval, so I ask for it.", "", [call])
    calls = [
        _call("task", {"subagent_type": name, "description": description})
        for name, description in _specialists(question)
    ]
    if not calls:
        return Reply("Nothing to look up and nothing to compute: I answer myself.", GREETING)
    names = " and ".join(call["args"]["subagent_type"] for call in calls)
    return Reply(
        f"The question has {len(calls)} part{'s' * (len(calls) > 1)}; I hand over to {names}.",
        f"Let me ask {names}.",
        calls,
    )


def _specialists(question: str) -> list[tuple[str, str]]:
    found = []
    expression = _expression(question)
    rest = question.replace(expression, " ") if expression else question
    rest = re.sub(
        r"\b(?:and|then)?\s*(?:also )?(?:compute|calculate|what is|work out)\s*[?.!]*\s*$",
        "",
        rest.strip(),
        flags=re.I,
    )
    topic = _LOOK_UP.search(rest)
    if topic and topic[1].strip(" ?.!,"):
        found.append(("researcher", f"Research this: {topic[1].strip(' ?.!,')}"))
    if expression:
        found.append(("math-whiz", f"Compute {expression}"))
    return found


def _expression(text: str) -> str | None:
    for match in _EXPRESSION.finditer(text):
        candidate = match[0].strip()
        if _OPERATOR.search(candidate):
            return candidate
    return None


def _research(task: str, results: list[ToolMessage]) -> Reply:
    if not results:
        query = task.removeprefix("Research this: ").strip()
        return Reply("I search before I answer.", "", [_call("search_web", {"query": query})])
    return Reply("", f"Here is what I found. {_snippet(results[-1])}")


def _snippet(result: ToolMessage) -> str:
    try:
        first = json.loads(str(result.text))["results"][0]
        return f"**{first['title']}**: {first['snippet']}"
    except (ValueError, KeyError, IndexError, TypeError):
        return str(result.text)


def _calculate(task: str, results: list[ToolMessage]) -> Reply:
    if not results:
        expression = _expression(task) or task.removeprefix("Compute ").strip()
        return Reply(
            "I use the calculator, even for easy sums.", "", [_call("calculator", {"expression": expression})]
        )
    return Reply("", f"The result is **{results[-1].text}**.")


def _answer(question: str, results: list[ToolMessage]) -> Reply:
    if any(result.name == "publish_note" for result in results):
        return Reply("", str(results[-1].text))
    parts = dict.fromkeys(str(result.text) for result in results)
    labels = ["Research" if "found" in part else "Calculation" for part in parts]
    lines = [f"### {label}\n\n{part}" for label, part in zip(labels, parts, strict=True)]
    return Reply("Both answers are in; I put them together." if len(lines) > 1 else "", "\n\n".join(lines))


def _numbers(last: int) -> str:
    return " ".join(str(number) for number in range(1, min(last, 2_000) + 1)) + "."


def _call(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "args": args}
