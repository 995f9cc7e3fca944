"""Model context protocol: assistants as tools, over streamable HTTP without sessions (agent server contract §3.9)."""
