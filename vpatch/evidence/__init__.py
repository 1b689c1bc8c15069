"""Evidence of runs: folders, in-toto statements, digests and reports.

It reads and writes evidence, and does not run anything. It may import `harness` and what lies
below it.
"""
