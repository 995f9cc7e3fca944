"""Agent-to-agent protocol over JSON-RPC, versions 0.3 and 1.0 (agent server contract §3.8)."""
