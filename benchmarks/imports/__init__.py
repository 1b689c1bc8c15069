"""The corpus of benchmarks/import.py, and the judge of what tools make of it."""
