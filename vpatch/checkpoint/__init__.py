"""A checkpoint on disk: what its headers say, and what can be repaired without loading it.

It may import `util` and `trust` alone.
"""
