"""Speed under load: cells, loads, measurements, comparison, reports.

It may import `smoke`, `evidence`, `harness` and what lies below them.
"""
