"""Proposals to upstream: gates, body, branch, pull request, and what became of threads.

It may import `evidence`, `github`, `checkout` and what lies below them.
"""
