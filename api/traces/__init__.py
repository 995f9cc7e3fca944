"""Trace store: ingestion, queries, projects, feedback, datasets (trace contract §4, §5)."""
