"""The graph `chat`: a coordinator that delegates to two sub-agents."""

from deepagents import create_deep_agent

from deep_agent.models import model_for
from deep_agent.tools import calculator, publish_note, search_web

COORDINATOR = """You are a helpful assistant that coordinates two specialists.
Delegate every look-up to `researcher` and every calculation to `math-whiz`.
Use both at once when a question needs both.
Then combine their findings into one short answer with a label for each part.
Use `publish_note` only when the user asks you to publish something."""

graph = create_deep_agent(
    name="chat",
    model=model_for("coordinator"),
    system_prompt=COORDINATOR,
    tools=[publish_note],
    interrupt_on={"publish_note": {"allowed_decisions": ["approve", "reject"]}},
    subagents=[
        {
            "name": "researcher",
            "description": "Looks things up on the web and sums up what it found.",
            "system_prompt": "You research. Always call `search_web` before you answer, then sum up what it found.",
            "tools": [search_web],
            "model": model_for("researcher"),
        },
        {
            "name": "math-whiz",
            "description": "Solves arithmetic.",
            "system_prompt": "You calculate. Always call `calculator`, even for easy sums, then state the result.",
            "tools": [calculator],
            "model": model_for("math-whiz"),
        },
    ],
)
