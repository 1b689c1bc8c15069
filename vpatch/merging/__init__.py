"""A change of one release is laid into another one, by three sides of each file.

It may import `planning` and what lies below it.
"""
