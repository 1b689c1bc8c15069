"""The only package that runs git: checkouts, branches of a fork, repositories of others.

It may import `util` alone.
"""
