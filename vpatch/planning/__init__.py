"""Patches and a tree become a plan: a state for each patch, and the changed files.

It writes nothing but its cache. It may import `library` and what lies below it.
"""
