"""From what the user names to a pristine, verified tree in the cache.

It may import `git` and `util` alone.
"""
