"""Which code of a project may run: what the user trusts, by path and digest.

It may import `util` alone.
"""
