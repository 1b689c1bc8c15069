"""A plan becomes a git checkout and a lock file, all of it or nothing.

It may import `planning`, `library` and what lies below them.
"""
