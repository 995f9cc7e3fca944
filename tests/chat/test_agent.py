"""The example agent's own parts: its calculator executes nothing, its script answers from the conversation."""

import sys

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.stacks import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "examples" / "deep_agent"))

from deep_agent.calculator import ExpressionError, evaluate
from deep_agent.script import ScriptedFailureError, reply_to


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("42 * 17", 714),
        ("6 \u00d7 7", 42),
        ("(1 + 2) / 4", 0.75),
        ("2^10", 1024),
        ("sqrt(81)", 9),
        ("-3 + 5", 2),
    ],
)
def test_calculator_knows_arithmetic(expression: str, value: float) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').getcwd()",
        "(lambda: 1)()",
        "[1][0]",
        "'a' * 3",
        "2 ** 2 ** 2 ** 2 ** 2 ** 2",
        "9 ** 99999",
        "(-8) ** 0.5",
        "1 / 0",
        "True + 1",
        "exit()",
        "(" * 150 + "1" + ")" * 150,
        "1" * 500,
        "",
    ],
)
def test_calculator_refuses_everything_else(expression: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(expression)


def test_coordinator_delegates_both_parts_of_a_question_at_once() -> None:
    question = HumanMessage("Research LangGraph streaming and compute 42 * 17")
    reply = reply_to("coordinator", [question])
    assert [call["args"] for call in reply.tool_calls] == [
        {"subagent_type": "researcher", "description": "Research this: LangGraph streaming"},
        {"subagent_type": "math-whiz", "description": "Compute 42 * 17"},
    ]
    assert reply.reasoning


def test_coordinator_answers_from_results_of_this_turn_only() -> None:
    conversation = [
        HumanMessage("compute 1 + 1"),
        AIMessage("", tool_calls=[{"id": "1", "name": "task", "args": {}}]),
        ToolMessage("The result is **2**.", tool_call_id="1", name="task"),
        AIMessage("The result is 2."),
        HumanMessage("compute 2 + 2"),
    ]
    assert [call["name"] for call in reply_to("coordinator", conversation).tool_calls] == ["task"]
    conversation += [ToolMessage("The result is **4**.", tool_call_id="2", name="task")]
    assert reply_to("coordinator", conversation).text == "### Calculation\n\nThe result is **4**."


def test_coordinator_fails_when_it_is_asked_to() -> None:
    with pytest.raises(ScriptedFailureError):
        reply_to("coordinator", [HumanMessage("please fail on purpose")])
