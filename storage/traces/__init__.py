"""Runs of traces: how creates and patches become rows, and how rows are found again."""
