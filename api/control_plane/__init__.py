"""Control plane: deployments, revisions, uploads, logs, listeners (control plane contract §1)."""
