"""What touches the world for the workflows: one file per concern."""
