"""Whether a patched vLLM works on a real engine: the plan's cells, their runs and their checks.

It may import `evidence`, `harness` and what lies below them.
"""
