"""A deep agent with the sub-agents `researcher` and `math-whiz` (mission document, streaming example)."""
