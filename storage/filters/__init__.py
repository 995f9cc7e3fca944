"""The filter language of runs: grammar, typed tree, and compilation to SQL (trace contract §4)."""
