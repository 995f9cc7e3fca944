"""What must survive: one file per workflow, deterministic, no I/O."""
