"""Run somebody's script where it reaches nothing but a copy of a tree.

It may import `source`, `util` and what lies below them.
"""
