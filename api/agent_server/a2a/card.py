"""The agent card of an assistant (contract §3.8)."""

from typing import Any

from psycopg.rows import DictRow


def agent_card(assistant: DictRow, url: str, graph_description: str | None) -> dict[str, Any]:
    """What other agents read before they talk to this one; readable by clients of both versions."""
    description = assistant["description"] or graph_description or f"Assistant {assistant['name']}."
    modes = ["text/plain", "application/json"]
    return {
        "name": assistant["name"],
        "description": description,
        "url": url,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        ],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "stateTransitionHistory": False,
            "extensions": [],
        },
        "defaultInputModes": modes,
        "defaultOutputModes": ["text/plain"],
        "skills": [
            {
                "id": f"{assistant['assistant_id']}-main",
                "name": assistant["name"],
                "description": description,
                "tags": ["assistant", "langgraph"],
                "inputModes": modes,
                "outputModes": ["text/plain"],
            }
        ],
        "securitySchemes": {"apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}},
        "security": [{"apiKey": []}],
        "version": str(assistant["version"]),
    }
