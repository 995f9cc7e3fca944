"""The agent server of every deployment, under /deployments/<name> (agent server contract)."""
