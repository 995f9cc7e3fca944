"""The agent's tools. They are mocks: they need no network, and answer the same for the same question."""

import asyncio
import json

from langchain_core.tools import tool

from deep_agent.calculator import ExpressionError, evaluate

SEARCH_SECONDS = 0.3
CALCULATION_SECONDS = 0.1


@tool
async def search_web(query: str) -> str:
    """Search the web for a query. Returns a JSON object with a list of results."""
    await asyncio.sleep(SEARCH_SECONDS)
    snippet = (
        "LangGraph streams an agent's work while it runs: tokens of each message, tool calls with their results, and"
        " the state after each step, also for sub-agents."
    )
    return json.dumps({"results": [{"title": f"Result for: {query}", "snippet": snippet}]})


@tool
async def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression such as `42 * 17`. Returns the number as text."""
    await asyncio.sleep(CALCULATION_SECONDS)
    try:
        value = evaluate(expression)
    except ExpressionError as error:
        return f"Error evaluating: {expression} ({error})"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@tool
async def publish_note(title: str, text: str) -> str:
    """Publish a note for everybody to read. A person must approve it first."""
    return f"Published the note “{title}” ({len(text)} characters)."
