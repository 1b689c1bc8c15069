"""`vpatch smoke`: whether a patched vLLM works: the plan's cells, their runs and their checks."""
